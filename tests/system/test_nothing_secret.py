"""No secret of params, results and exceptions, and no password, leaves by logs, history, messages or events."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from sqlalchemy import make_url, text

from tests.support.databases import Database
from tests.support.kinds.leaky import leaky
from tests.support.submitted import Tasks
from tests.support.until import until
from tests.support.workers import Worker

CANARY = "canary-7f3a19"
MAY_HOLD_RESULTS = "task_results"


class Monitor:
    """Every command that the broker is sent, and everything published through it, as text."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=None)
        self._seen: list[str] = []
        self._thread = threading.Thread(target=self._run, name="monitor")

    def _run(self) -> None:
        with self._client.monitor() as monitor:
            for command in monitor.listen():
                self._seen.append(command["command"])
                if command["command"] == "ECHO stop":
                    return

    def __enter__(self) -> "Monitor":
        self._thread.start()
        until(lambda: self._client.echo("started") and self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.echo("stop")
        self._thread.join(10)
        self._client.close()

    def text(self) -> str:
        return "\n".join(self._seen)


@pytest.fixture(scope="module")
def watched(module_database: Database, module_broker: str, tasks: Tasks) -> Iterator[tuple[str, str]]:
    """(the worker's log, what its broker saw) of leaking tasks, lost connections and a shutdown."""
    with Monitor(module_broker) as monitor, Worker(module_database.url, module_broker) as worker:
        worker.wait_ready()
        ids = [
            one for how in ("result", "raise", "sql", "chained") for one in tasks.submit(leaky, secret=CANARY, how=how)
        ]
        tasks.wait_ended(ids, 30, watch=[worker])
        assert tasks.states(ids) == {"succeeded": 1, "failed error": 3}
        lose_connections(tasks)
        until(lambda: worker.lines("listen_lost"))
        again = tasks.submit(leaky, secret=CANARY, how="raise")
        tasks.wait_ended(again, 30, watch=[worker])
        waiting = tasks.submit(leaky, secret=CANARY, how="wait")
        until(lambda: tasks.leases() == 1)
        assert worker.stop()[0] == 0
        assert tasks.states(waiting) == {"failed service_unavailable": 1}
        yield worker.text(), monitor.text()


def lose_connections(tasks: Tasks) -> None:
    tasks.rows("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
               "and application_name like 'tenure%'")  # fmt: skip


def passwords(*urls: str) -> list[str]:
    found = [str(make_url(url).password) for url in urls]
    assert all(len(one) > 8 for one in found)
    return found


def test_the_log_holds_neither_canary_nor_password(
    watched: tuple[str, str], module_database: Database, module_broker: str
) -> None:
    log, _ = watched
    assert "attempt_failed" in log
    for secret in (CANARY, *passwords(module_database.url, module_broker)):
        assert secret not in log


def test_the_broker_saw_neither_canary_nor_password(
    watched: tuple[str, str], module_database: Database, module_broker: str
) -> None:
    _, seen = watched
    assert "LPUSH" in seen
    assert "task-failed" in seen or "task.multi" in seen
    for secret in (CANARY, *passwords(module_database.url)):
        assert secret not in seen


def test_the_broker_keeps_neither_canary_nor_password(
    watched: tuple[str, str], module_database: Database, module_broker: str
) -> None:
    with redis.Redis.from_url(module_broker) as client:
        kept = b"".join(key + (client.dump(key) or b"") for key in client.scan_iter())
    assert kept
    for secret in (CANARY, *passwords(module_database.url)):
        assert secret.encode() not in kept


def test_no_table_but_that_of_results_holds_the_canary(watched: tuple[str, str], tasks: Tasks) -> None:
    names = [row[0] for row in tasks.rows("select tablename from pg_tables where schemaname = 'public'")]
    assert {"task_params", "task_events", "task_attempts", "activities", "tasks", MAY_HOLD_RESULTS} <= set(names)
    holding = [name for name in names if holds(tasks, name)]
    assert holding == [MAY_HOLD_RESULTS]


def holds(tasks: Tasks, table: str) -> Any:
    with tasks.engine.connect() as connection:
        return connection.execute(
            text(f'select 1 from "{table}" t where t::text like :c'), {"c": f"%{CANARY}%"}
        ).first()
