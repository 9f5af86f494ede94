"""What time alone decides: promotion and expiry."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure.model.states import PENDING, State
from tenure.store.hot import HotSession, RunOn
from tenure.store.transitions import due
from tests.store.verbs import arrange, later
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

PAST = "clock_timestamp() - interval '1 s'"


def sweep(database: Database, step: str) -> list[object]:
    with database.engine.begin() as connection:
        found: list[object] = getattr(due, step)(connection)
        return found


def test_a_due_task_is_promoted_with_a_hint_and_can_be_claimed(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database, at=later(), priority=4)
    assert session.claim(task_id) is None
    assert sweep(database, "promote") == []
    tasks.run_sql(database, f"update tasks set available_at = {PAST}")
    assert sweep(database, "promote") == [task_id]
    assert tasks.value(database, "select priority from task_hints") == 4
    assert [one.lease.task_id for one in session.claim_next(RunOn("default", [tasks.PLAIN.name]))] == [task_id]


def test_a_retry_waits_for_its_delay(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    assert session.retry_later(tasks.claimed(session, task_id).lease, tasks.AGAIN)
    seen = tasks.task(database, task_id)
    assert seen["timestamps"]["available_at"] - seen["history"][-1]["created_at"] > timedelta(minutes=59)
    assert (seen["error"], seen["attempts"][0]["how"]) == ({"code": "Busy", "message": "busy"}, "retried")
    assert sweep(database, "promote") == []


@pytest.mark.parametrize("state", sorted(PENDING))
@pytest.mark.parametrize("column", ["start_by", "deadline"])
def test_a_pending_task_past_its_time_fails(database: Database, session: HotSession, state: State, column: str) -> None:
    scene = arrange(database, session, state)
    assert sweep(database, "expire") == []
    tasks.run_sql(database, f"update tasks set {column} = {PAST}")
    assert session.claim(scene.id) is None, "late is late, also before the sweep"
    assert sweep(database, "expire") == [scene.id]
    seen = tasks.task(database, scene.id)
    assert (seen["state"], seen["outcome"], seen["error"]["code"]) == ("failed", *["deadline_exceeded"] * 2)
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_a_running_task_past_its_time_is_not_expired(database: Database, session: HotSession) -> None:
    arrange(database, session, State.RUNNING)
    tasks.run_sql(database, f"update tasks set start_by = {PAST}, deadline = {PAST}")
    before = snapshot(database)
    assert sweep(database, "expire") == []
    assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize("step, age", [("promote", "available_at"), ("expire", "deadline")])
def test_two_sweeps_at_once_take_each_task_once(database: Database, step: str, age: str) -> None:
    ids = tasks.submit_many(database, 250, at=later())
    tasks.run_sql(database, f"update tasks set {age} = {PAST}")

    def drain() -> list[object]:
        taken: list[object] = []
        while batch := sweep(database, step):
            assert len(batch) <= due.BATCH
            taken += batch
        return taken

    taken = [one for many in together(drain, drain) for one in many] + drain()
    assert sorted(map(str, taken)) == sorted(map(str, ids))
    assert tasks.value(database, "select count(*) from task_events where verb = :verb", verb=step) == 250


NOTHING = due.Due(expired=False, stops=False, late=False, scheduled=False, activities=False, executions=False)


def test_a_look_tells_what_there_is_to_do(database: Database, session: HotSession) -> None:
    def look() -> due.Due:
        with database.engine.connect() as connection:
            return due.anything(connection, older=0.0)

    assert look() == NOTHING
    task_id = tasks.claimed(session, tasks.submit(database)).lease.task_id
    tasks.submit(database, at=later(), deadline=datetime.now(UTC) + timedelta(hours=2))
    assert look() == NOTHING
    tasks.cancel(database, task_id)
    tasks.expire_lease(database, task_id)
    tasks.run_sql(database, f"update tasks set available_at = {PAST}, deadline = {PAST} where state = 'scheduled'")
    tasks.run_sql(database, f"update activities set expires_at = {PAST}")
    tasks.run_sql(database, "insert into execution_due (execution_id) values (:id)", id=task_id)
    assert look() == due.Due(expired=True, stops=True, late=True, scheduled=True, activities=True, executions=True)
