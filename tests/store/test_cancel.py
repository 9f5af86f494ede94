"""request_cancel: at once for what nobody runs, asked of who runs it, too late for what has ended."""

import select
from uuid import uuid4

import pytest

from tenure import client
from tenure.model.errors import NoSuchTask, TooLate, UsageError
from tenure.model.records import Initiator
from tenure.model.states import ACTIVE, PENDING, State
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store.hot import HotSession
from tenure.store.transitions import due
from tenure.store.transitions.parts import STOP_CHANNEL
from tests.store.verbs import arrange
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot


@pytest.mark.parametrize("state", sorted(PENDING))
def test_a_pending_task_is_cancelled_at_once(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    assert tasks.cancel(database, scene.id) == State.CANCELLED
    seen = tasks.task(database, scene.id)
    assert (seen["state"], seen["outcome"], seen["stops"]) == ("cancelled", None, [])
    assert (seen["history"][-1]["verb"], seen["history"][-1]["note"]) == ("request_cancel", "user:ada")
    assert tasks.value(database, "select count(*) from task_hints") == 0
    assert tasks.value(database, "select status from activities where task_id = :id", id=scene.id) == "cancelled"


@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_an_active_task_is_asked_and_its_row_stays(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    before = snapshot(database)
    with database.engine.begin() as connection:
        answered = client.cancel(connection, scene.id, initiator=tasks.ADA, reason="enough")
    assert answered == state
    assert changed(before, snapshot(database)) == ["task_events", "task_stops"]
    (stop,) = tasks.task(database, scene.id)["stops"]
    assert (stop["asked_by"], stop["reason"]) == ("user:ada", "enough")
    assert tasks.ends(session, scene.lease, tasks.CANCELLED)
    assert tasks.cancel(database, scene.id) == State.CANCELLED


@pytest.mark.parametrize("state", sorted(PENDING | ACTIVE | {State.CANCELLED}))
def test_asking_twice_is_harmless(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    first = tasks.cancel(database, scene.id)
    before = snapshot(database)
    assert tasks.cancel(database, scene.id) == first
    assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.PARTIALLY_SUCCEEDED, State.FAILED])
def test_a_cancel_after_the_end_is_too_late(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    before = snapshot(database)
    with pytest.raises(TooLate, match=f"{scene.id} has already ended: {state}"):
        tasks.cancel(database, scene.id)
    assert changed(before, snapshot(database)) == []


def test_a_cancel_rolled_back_has_not_happened(database: Database, session: HotSession) -> None:
    running, queued = arrange(database, session, State.RUNNING).id, tasks.submit(database)
    before = snapshot(database)
    with database.engine.connect() as connection, connection.begin() as transaction:
        for task_id in (running, queued):
            client.cancel(connection, task_id, initiator=tasks.ADA)
        transaction.rollback()
    assert changed(before, snapshot(database)) == []


def test_an_unknown_task_is_named(database: Database) -> None:
    unknown = uuid4()
    with pytest.raises(NoSuchTask, match=str(unknown)):
        tasks.cancel(database, unknown)


@pytest.mark.parametrize("text", ["a\0b", "\udc00"])
def test_a_reason_that_cannot_be_stored_is_one_clear_error(database: Database, text: str) -> None:
    task_id = tasks.submit(database)
    before = snapshot(database)
    for options in ({"reason": text}, {"initiator": Initiator("user", "1", text)}):
        with database.engine.begin() as connection, pytest.raises(UsageError):
            client.cancel(connection, task_id, **{"initiator": tasks.ADA, **options})
    assert changed(before, snapshot(database)) == []


def test_a_stop_is_told_to_who_listens(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    with tasks.worker(database) as listener:
        with listener.driver.cursor() as cursor:
            cursor.execute(f"listen {STOP_CHANNEL}")
        tasks.cancel(database, lease.task_id)
        assert select.select([listener.driver], [], [], 5.0)[0]
        listener.driver.poll()
        assert [one.channel for one in listener.driver.notifies] == [STOP_CHANNEL]


def test_a_success_that_was_committed_first_wins(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    assert tasks.cancel(database, lease.task_id) == State.RUNNING
    assert tasks.ends(session, lease, tasks.SUCCEEDED)
    with pytest.raises(TooLate):
        tasks.cancel(database, lease.task_id)


def test_nobody_claims_a_task_that_was_asked_to_stop(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    tasks.cancel(database, lease.task_id)
    assert session.release(lease)
    assert session.claim(lease.task_id) is None
    assert tasks.state(database, lease.task_id) == State.QUEUED


@pytest.mark.parametrize("hand_back", ["release", "retry_later"])
def test_a_stop_asked_while_a_task_is_handed_back_ends_cancelled_after_the_sweep(
    database: Database, session: HotSession, hand_back: str
) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    with database.engine.begin() as asking:
        # The stop is asked of a running task and not committed yet: the holder cannot see it.
        assert client.cancel(asking, lease.task_id, initiator=tasks.ADA) == State.RUNNING
        assert session.release(lease) if hand_back == "release" else session.retry_later(lease, tasks.AGAIN)
        with database.engine.begin() as connection:
            assert due.cancel_asked(connection) == []
    with database.engine.begin() as connection:
        assert due.anything(connection, older=0.0).stops
        assert due.cancel_asked(connection) == [lease.task_id]
    seen = tasks.task(database, lease.task_id)
    assert (seen["state"], seen["history"][-1]["verb"]) == ("cancelled", "acknowledge_cancel")
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_the_sweep_forgets_stops_of_ended_tasks_and_of_no_other(database: Database, session: HotSession) -> None:
    ended, running = (tasks.claimed(session, tasks.submit(database)).lease for _ in range(2))
    for lease in (ended, running):
        tasks.cancel(database, lease.task_id)
    assert tasks.ends(session, ended, tasks.SUCCEEDED)
    with database.engine.begin() as connection:
        assert due.cancel_asked(connection) == []
        assert len(due.forget_stops(connection)) == 1
    assert tasks.value(database, "select array_agg(task_id) from task_stops") == [running.task_id]
    assert tasks.state(database, running.task_id) == State.RUNNING


def test_the_sweep_forgets_stops_of_tasks_that_are_no_more(database: Database) -> None:
    tasks.run_sql(database, "insert into task_stops (task_id, asked_by) values (:id, 'user:ada')", id=uuid4())
    with database.engine.begin() as connection:
        assert len(due.forget_stops(connection)) == 1
        assert not due.anything(connection, older=0.0).stops


def test_one_round_of_the_reaper_forgets_all_stops_of_tasks_that_are_no_more(database: Database) -> None:
    flood = (
        "insert into task_stops (task_id, asked_by) select gen_random_uuid(), 'user:ada' from generate_series(1, :n)"
    )
    tasks.run_sql(database, flood, n=2 * due.FORGOTTEN + 1)
    reaper = Reaper(Settings(database_url=database.url))
    reaper.run_once()
    reaper.close()
    assert tasks.value(database, "select count(*) from task_stops") == 0
