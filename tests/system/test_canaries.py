"""What a task was given, gave back or raised, and the servers' passwords, are on no page, in no event and in no log of
worker, beat and Flower side by side."""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import redis
from sqlalchemy import make_url, text

from tests.support.celery_events import CeleryEvents
from tests.support.celery_processes import CeleryProcess
from tests.support.databases import Database
from tests.support.kinds.leaky import leaky
from tests.support.ports import free_port
from tests.support.submitted import Tasks
from tests.support.until import until
from tests.support.workers import Worker

CANARY = "canary-51c0de"
BEAT = ("celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "INFO")
PAGES = (
    "/api/tasks",
    "/api/workers?refresh=1",
    "/workers",
    "/workers?json=1",
    "/tasks",
    "/broker",
    "/metrics",
    "/tasks/datatable?draw=1&start=0&length=100&search[value]=&order[0][column]=0&order[0][dir]=asc&columns[0][data]=name",
)
# Results are what a task is run for: their table alone may hold what a body gave back.
STORED = ("tasks", "task_params", "task_events", "task_attempts", "task_checkpoints", "activities", "activity_items")


@dataclass
class Run:
    """Everything that anybody could have read of it."""

    logs: dict[str, str]
    pages: dict[str, str]
    events: str
    broker: str


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def ready(port: int) -> bool:
    try:
        return get(port, "/healthcheck") == "OK"
    except OSError:
        return False


def kept_by(broker_url: str) -> str:
    """Keys and values of the broker, as its own dump of them."""
    with redis.Redis.from_url(broker_url) as client:
        kept = (key + b" " + (client.dump(key) or b"") for key in client.scan_iter())
        return b"\n".join(kept).decode("latin-1")


@pytest.fixture(scope="module")
def run(
    module_database: Database, module_broker: str, tasks: Tasks, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    home, port, own, beats = tmp_path_factory.mktemp("canaries"), free_port(), free_port(), free_port()
    urls = {"database_url": module_database.url, "broker_url": module_broker}
    flower_command = ("tenure_workers.flower", f"--port={port}")
    with (
        CeleryEvents(module_broker) as events,
        CeleryProcess(flower_command, home=home / "f", name="flower", **urls, FLOWER_UNAUTHENTICATED_API="true") as flower,
        CeleryProcess(BEAT, home=home / "b", name="beat", **urls, TENURE_HTTP_PORT=str(beats)) as beat,
        Worker(module_database.url, module_broker, env={"TENURE_HTTP_PORT": str(own)}) as worker,
    ):  # fmt: skip
        worker.wait_ready()
        beat.wait_for('"ready"')
        until(lambda: ready(port), 30)
        ids = [one for how in ("result", "raise", "sql", "chained", "wait") for one in tasks.submit(leaky, secret=CANARY, how=how)]  # fmt: skip
        tasks.wait_ended(ids[:-1], 30, watch=[worker])
        until(lambda: set(json.loads(get(port, "/api/tasks"))) >= {str(task_id) for task_id in ids}, 20)
        pages = {path: get(port, path) for path in (*PAGES, *(f"/task/{task_id}" for task_id in ids))}
        pages |= {f"worker {path}": get(own, path) for path in ("/health", "/metrics")}
        until(lambda: "tenure_metrics_refreshed_timestamp 0.0" not in get(beats, "/metrics"))
        pages |= {f"beat {path}": get(beats, path) for path in ("/health", "/metrics")}
        kept = kept_by(module_broker)
        # Every session of worker and beat is lost once: what they say of it must not quote the driver.
        tasks.rows("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
                   "and application_name like 'tenure%'")  # fmt: skip
        until(lambda: worker.lines("listen_lost"), 20)
        assert worker.stop()[0] == 0
        beat.process.terminate()
        assert beat.wait(20) == 0
        flower.process.terminate()
        assert flower.wait(20) == 0
        logs = {"worker": worker.text(), "beat": beat.text(), "flower": flower.text()}
        yield Run(logs, pages, json.dumps(events.all(), default=str), kept)


@pytest.fixture(scope="module")
def secrets(module_database: Database, module_broker: str) -> tuple[str, ...]:
    passwords = [str(make_url(url).password) for url in (module_database.url, module_broker)]
    assert all(len(one) > 8 for one in passwords)
    return (CANARY, *passwords)


def test_no_log_holds_one(run: Run, secrets: tuple[str, ...]) -> None:
    assert "attempt_failed" in run.logs["worker"]
    for name, log in run.logs.items():
        assert log, f"{name} said nothing: not its log"
        assert [one for one in secrets if one in log] == [], name
        assert "Traceback" not in log, name


def test_no_page_holds_one(run: Run, secrets: tuple[str, ...]) -> None:
    assert "leaky" in run.pages["/api/tasks"]
    assert "one@test" in run.pages["/workers"]
    assert "flower_" in run.pages["/metrics"]
    assert "tenure_leases_held" in run.pages["worker /metrics"]
    assert "tenure_metrics_refreshed_timestamp" in run.pages["beat /metrics"]
    for role in ("worker", "beat"):
        said = json.loads(run.pages[f"{role} /health"])
        assert (said["role"], said["fresh"]) == (role, True)
    for path, page in run.pages.items():
        assert [one for one in secrets if one in page] == [], path


def test_no_event_and_no_key_of_the_broker_holds_one(run: Run, secrets: tuple[str, ...]) -> None:
    assert "task-failed" in run.events
    assert run.broker
    for seen in (run.events, run.broker):
        assert [one for one in secrets if one in seen] == []


def test_no_history_holds_one(run: Run, secrets: tuple[str, ...], tasks: Tasks) -> None:
    assert tasks.one("select count(*) from tasks where state = 'failed'") >= 3
    for table in STORED:
        for secret in secrets:
            with tasks.engine.connect() as connection:
                found = connection.execute(text(f"select 1 from {table} t where t::text like :s"), {"s": f"%{secret}%"})
                assert found.first() is None, table


def test_what_the_log_says_of_a_failure_is_its_class_and_its_place(run: Run) -> None:
    lines = [json.loads(line) for line in run.logs["worker"].splitlines() if '"attempt_failed"' in line]
    assert {line["error"] for line in lines} == {"ValueError", "RuntimeError", "DataError"}
    assert all(any(frame.startswith("leaky.py:") for frame in line["frames"]) for line in lines)
