"""How a process shows that it lives: health file, row and endpoint, and that none of them disturbs the work."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tenure import client
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.ports import free_port
from tests.support.submitted import TESTER, Tasks
from tests.support.until import until
from tests.support.workers import Worker

FRESH_S = 15.0
SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1"}
FOR_EVER = {"steps": 1_000_000, "seconds": 0.05}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str, port: int) -> Iterator[Worker]:
    env = {**SHORT_LEASE, "TENURE_HTTP_PORT": str(port)}
    with Worker(module_database.url, module_broker, env=env) as worker:
        yield worker.wait_ready()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def sample(port: int, name: str) -> float:
    """The value of that line of /metrics; 0 where there is none yet."""
    lines = get(port, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def at_work(tasks: Tasks, count: int) -> None:
    until(lambda: tasks.one("select count(distinct task_id) from ledger join task_leases using (task_id)") >= count, 30)


def cancel(tasks: Tasks, *ids: Any) -> None:
    for task_id in ids:
        with tasks.engine.begin() as connection:
            client.cancel(connection, task_id, initiator=TESTER)


def health_file(home: Path, role: str) -> dict[str, Any]:
    return dict(json.loads((home / f"health-{role}").read_text()))


# -- health ------------------------------------------------------------------------------------------------------------


def test_the_health_file_says_the_time_in_utc_and_counts_rounds(worker: Worker) -> None:
    first = health_file(worker.home, "worker")
    assert datetime.fromisoformat(first["at"]).utcoffset() == timedelta(0)
    assert datetime.now(UTC) - datetime.fromisoformat(first["at"]) < timedelta(seconds=FRESH_S)
    assert first["pid"] == worker.process.pid
    until(lambda: health_file(worker.home, "worker")["counter"] > first["counter"] + 1)


@pytest.mark.parametrize("role, stale", [("worker", 60), ("beat", 120)])
def test_health_is_judged_by_the_age_of_the_file(tmp_path: Path, role: str, stale: int) -> None:
    tenure = Tenure(tmp_path)
    aged(tmp_path, role, stale - 10)
    assert tenure.line("health", "--role", role).startswith(f"{role}: seen ")
    assert tenure.json("health", "--role", role)["fresh"] is True
    aged(tmp_path, role, stale + 1)
    assert "it hangs or has ended" in tenure.refusal(1, "health", "--role", role)


def aged(home: Path, role: str, seconds: float) -> None:
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    (home / f"health-{role}").write_text(json.dumps({"at": at.isoformat(), "counter": 3, "pid": 1}))


# -- the row -----------------------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_written_disturbs_nothing_and_then_says_what_is_worked_on_since_when(
    tasks: Tasks, worker: Worker
) -> None:
    """Its whole table is locked: leases are renewed and stops are heard all the same."""
    ids = tasks.submit(ledger, 3, **FOR_EVER)
    at_work(tasks, 2)
    with tasks.engine.begin() as holder:
        holder.execute(text("lock table workers in access exclusive mode"))
        refused = len(worker.lines("row_not_written"))
        until(lambda: len(worker.lines("row_not_written")) > refused, 15)
        before = tasks.one("select max(renewed) from task_leases")
        until(lambda: tasks.one("select max(renewed) > :b from task_leases", b=before), 5)
        cancel(tasks, ids[0])
        until(lambda: tasks.one("select state from tasks where id = :id", id=ids[0]) == "cancelled", 5)
    seen = tasks.one("select last_seen from workers")
    until(lambda: tasks.one("select last_seen from workers") > seen, 10)
    assert tasks.one("select work from workers").startswith("2 running, the oldest since 20")
    assert worker.lines("lease_lost") == []
    assert worker.lines("service_died") == []
    cancel(tasks, *ids[1:])
    tasks.wait_ended(ids, 10, watch=[worker])


def test_a_worker_not_heard_of_is_shown_as_overdue(
    tasks: Tasks, worker: Worker, module_database: Database, tmp_path: Path
) -> None:
    """Another worker's row: one that was killed 14, then 16 seconds ago."""
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=module_database.url)
    tasks.rows("insert into workers (boot_id, node, role, pid, version, last_seen) values (gen_random_uuid(), "
               "'gone@test', 'worker', 1, '0', clock_timestamp() - interval '13 s') returning 1")  # fmt: skip

    def status() -> dict[str, str]:
        return {row["node"]: row["status"] for row in tenure.json("workers", "list")}

    assert status() == {"gone@test": "live", "one@test": "live"}
    tasks.rows("update workers set last_seen = last_seen - interval '3 s' where node = 'gone@test' returning 1")
    assert status() == {"gone@test": "overdue", "one@test": "live"}
    tasks.rows("delete from workers where node = 'gone@test' returning 1")


# -- the endpoint ------------------------------------------------------------------------------------------------------


def test_a_worker_answers_for_its_health_and_counts_what_it_does(tasks: Tasks, worker: Worker, port: int) -> None:
    status, body = get(port, "/health")
    assert status == 200
    assert json.loads(body).keys() == {"role", "fresh", "at", "counter", "age_seconds"}
    published, renewed = sample(port, "tenure_hints_published_total"), sample(port, "tenure_lease_renewals_total")
    cancels = sample(port, 'tenure_stops_asked_total{cause="cancel"}')
    ids = tasks.submit(ledger, 2, **FOR_EVER)
    at_work(tasks, 2)
    until(lambda: sample(port, "tenure_leases_held") == 2)
    until(lambda: sample(port, "tenure_lease_renewals_total") > renewed)
    assert sample(port, "tenure_hints_published_total") > published
    cancel(tasks, *ids)
    tasks.wait_ended(ids, 10, watch=[worker])
    assert sample(port, 'tenure_stops_asked_total{cause="cancel"}') == cancels + 2
    with tasks.engine.begin() as connection:
        late = client.submit(connection, ledger, FOR_EVER, initiator=TESTER, deadline=timedelta(seconds=1)).id
    tasks.wait_ended([late], 10, watch=[worker])
    assert sample(port, 'tenure_stops_asked_total{cause="deadline"}') == 1
    assert not any(str(task_id) in get(port, "/metrics")[1] for task_id in ids)


def test_a_port_in_use_is_one_line_and_exit_code_1_before_anything_is_consumed(
    module_database: Database, module_broker: str, tmp_path: Path, port: int
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        with Worker(module_database.url, module_broker, name="two", env={"TENURE_HTTP_PORT": taken}) as second:
            assert second.exit_code(30) == 1
            (line,) = [line for line in second.text().splitlines() if line.startswith("tenure: ")]
            assert line.startswith(f"tenure: port {taken} of 127.0.0.1 cannot be had")
            assert "Traceback" not in second.text()
            assert second.lines("ready") == []


def test_the_endpoint_is_the_first_thing_to_go(worker: Worker, port: int) -> None:
    """SIGTERM: the port refuses while the process still winds down its pool."""
    began = time.monotonic()
    worker.process.terminate()
    until(lambda: gone(port), 2)
    print(f"endpoint gone {time.monotonic() - began:.2f} s after SIGTERM")
    assert worker.process.poll() is None
    assert worker.exit_code() == 0
    (last,) = worker.lines("stopped")
    assert (last["late"], last["died"]) == ([], [])


def gone(port: int) -> bool:
    try:
        get(port, "/health")
    except OSError:
        return True
    return False
