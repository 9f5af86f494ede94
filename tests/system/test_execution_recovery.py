"""A worker dies with a step of a schedule in hand: the step is recovered and its execution settles."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tenure import schedules
from tests.support import schedules as made
from tests.support.celery_processes import CeleryProcess
from tests.support.databases import Database
from tests.support.submitted import TESTER, Tasks
from tests.support.until import until
from tests.support.workers import KINDS, Worker

SHORT_LEASE = {"TENURE_LEASE_SECONDS": "2", "TENURE_RENEW_SECONDS": "0.5"}
BEAT = ("celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "INFO")
STATE = "select state from executions where id = :id"


@pytest.fixture
def tasks(database: Database) -> Tasks:
    return Tasks(database.engine)


@pytest.fixture
def victim(database: Database, broker_url: str) -> Iterator[Worker]:
    with Worker(database.url, broker_url, name="victim", env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


def started(database: Database, tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """An execution whose first step has left an effect and goes on."""
    monkeypatch.setenv("TENURE_KINDS", KINDS)
    long = made.step("ledger", params={"steps": 40, "seconds": 0.05})
    with database.engine.begin() as connection:
        schedules.add(connection, made.spec("nightly", [long], "ledger", manual=True), initiator=TESTER)
        execution_id = schedules.run_now(connection, "nightly", initiator=TESTER)
    until(lambda: tasks.one("select count(*) from ledger") > 2, 20)
    return execution_id


def states(tasks: Tasks) -> list[str]:
    return [row[0] for row in tasks.rows("select state from tasks order by step_index")]


def test_a_step_whose_worker_was_killed_is_resumed_by_another_and_the_next_group_runs(
    database: Database, broker_url: str, tasks: Tasks, victim: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = started(database, tasks, monkeypatch)
    victim.kill()
    with Worker(database.url, broker_url, name="survivor", env=SHORT_LEASE):
        until(lambda: tasks.one(STATE, id=execution_id) == "succeeded", 40)
    assert states(tasks) == ["succeeded", "succeeded"]
    assert tasks.one("select count(*) from task_attempts where how = 'lost'") == 1
    assert tasks.one("select count(distinct (task_id, step)) = count(*) and count(*) = 41 from ledger")


def test_a_worker_fires_schedules_itself_when_it_is_told_to(
    database: Database, broker_url: str, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_KINDS", KINDS)
    with database.engine.begin() as connection:
        schedules.add(connection, made.spec("often", "ledger", "ledger", every=1.0), initiator=TESTER)
    services = {"TENURE_SERVICES": "dispatcher,reaper,scheduler,safety_net"}
    with Worker(database.url, broker_url, name="alone", env=services) as alone:
        until(lambda: tasks.one("select count(*) from executions where state = 'succeeded'") >= 2, 40)
        assert alone.stop()[0] == 0


def test_a_cancel_that_a_dying_worker_never_heard_settles_the_execution_by_beat_alone(
    database: Database, broker_url: str, tasks: Tasks, victim: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    execution_id = started(database, tasks, monkeypatch)
    victim.freeze()
    with database.engine.begin() as connection:
        schedules.cancel_execution(connection, execution_id, initiator=TESTER)
    victim.kill()
    with CeleryProcess(BEAT, home=tmp_path, name="beat", database_url=database.url, broker_url=broker_url):
        until(lambda: tasks.one(STATE, id=execution_id) == "cancelled", 30)
    assert states(tasks) == ["cancelled", "cancelled"]
    assert tasks.one("select count(*) from activities where task_id is not null and status <> 'cancelled'") == 0
