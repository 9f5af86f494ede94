"""A database that is away, away for good, too new, or that refuses a service later: what the worker says and how it leaves."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tenure.migrate import migrate
from tests.support.kinds.ledger import ledger
from tests.support.servers import OwnServers
from tests.support.submitted import Tasks, scaled
from tests.support.workers import Worker

AWAY_S = scaled(3, 20)
GIVES_UP_S = 2.0
IMPORTS_S = 20.0  # of Celery, on a busy machine
HEALTH_S = 15.0


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers(valkey=False) as own:
        migrate(own.database_url)
        yield own


@pytest.fixture
def tasks(own: OwnServers) -> Iterator[Tasks]:
    engine = create_engine(own.database_url, poolclass=NullPool)
    yield Tasks(engine)
    engine.dispose()


def health_age(worker: Worker) -> float:
    said = json.loads((worker.home / "health-worker").read_text())
    return (datetime.now(UTC) - datetime.fromisoformat(said["at"])).total_seconds()


def said(worker: Worker) -> str:
    """Its one line that is no log record."""
    (line,) = [line for line in worker.text().splitlines() if line.startswith("tenure: ")]
    assert "Traceback" not in worker.text()
    return line


def gives_up_at_the_bound(worker: Worker) -> None:
    """A worker whose database does not come within TENURE_CONNECT_SECONDS leaves with 1, and nothing of it remains."""
    worker.wait_for("waiting_for_database", IMPORTS_S)
    began = time.monotonic()
    assert worker.exit_code(GIVES_UP_S + 10) == 1
    assert time.monotonic() - began < GIVES_UP_S + 3
    assert "cannot be reached" in said(worker)
    assert worker.pool() == []


def test_a_worker_waits_for_its_database_up_to_the_bound_says_each_attempt_and_consumes_when_it_is_there(
    own: OwnServers, module_broker: str, tasks: Tasks
) -> None:
    (task_id,) = tasks.submit(ledger, steps=1)
    own.stop_postgres()
    with (
        Worker(own.database_url, module_broker) as worker,
        Worker(own.database_url, module_broker, name="brief", env={"TENURE_CONNECT_SECONDS": str(GIVES_UP_S)}) as brief,
    ):
        worker.wait_for("waiting_for_database")
        gives_up_at_the_bound(brief)
        oldest, end = 0.0, time.monotonic() + AWAY_S
        while time.monotonic() < end:
            oldest = max(oldest, health_age(worker))
            time.sleep(0.2)
        own.start_postgres()
        worker.wait_ready()
        attempts = [line["attempt"] for line in worker.lines("waiting_for_database")]
        print(f"away {AWAY_S} s: {len(attempts)} attempts, health file at most {oldest:.1f} s old")
        assert attempts == list(range(1, len(attempts) + 1))
        assert len(attempts) >= 3
        assert oldest < HEALTH_S
        tasks.wait_ended([task_id], 20, watch=[worker])
    assert tasks.states([task_id]) == {"succeeded": 1}


def test_a_schema_newer_than_the_code_is_refused_with_what_to_do(
    own: OwnServers, module_broker: str, tasks: Tasks
) -> None:
    (before,) = tasks.rows("update alembic_version set version_num = '9999' returning (select version_num from "
                           "alembic_version)")  # fmt: skip
    try:
        with Worker(own.database_url, module_broker) as worker:
            assert worker.exit_code(IMPORTS_S) == 1
            assert said(worker).endswith("at schema 9999, newer than this code knows: deploy the newer code")
    finally:
        tasks.rows("update alembic_version set version_num = :old returning 1", old=before[0])


def test_a_service_whose_statement_is_refused_for_good_ends_the_worker_with_1(
    own: OwnServers, module_broker: str, tasks: Tasks
) -> None:
    """What the reaper and the keeper read is renamed under them: SQLSTATE 42P01 passes for nobody."""
    with Worker(own.database_url, module_broker) as worker:
        worker.wait_ready()
        with tasks.engine.begin() as connection:
            connection.execute(text("alter table task_stops rename to task_stops_away"))
        try:
            assert worker.exit_code(30) == 1
        finally:
            with tasks.engine.begin() as connection:
                connection.execute(text("alter table task_stops_away rename to task_stops"))
        died = {line["service"] for line in worker.lines("service_died")}
        assert died & {"reaper", "keeper"}
        (last,) = worker.lines("stopped")
        assert (set(last["died"]), last["late"]) == (died, [])
        assert "Traceback" not in worker.text()
