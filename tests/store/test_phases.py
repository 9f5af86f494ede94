"""Phases are open only while the lease of their attempt stands, whoever ends it and how."""

import time
from collections.abc import Callable

import psycopg2
import pytest
from sqlalchemy import text

from tenure.model.records import Claimed, Ended
from tenure.store import phases
from tenure.store.hot import HotSession, driver_dsn
from tenure.store.transitions import force, recover
from tests.support import tasks
from tests.support.databases import Database
from tests.support.phases import a_phase, declare, seen, statuses
from tests.support.snapshots import changed, snapshot
from tests.support.until import until

End = Callable[[Database, HotSession, Claimed], None]
GIVEN = ("completed", "running", "pending", "skipped")
SUCCESS = ["completed", "completed", "skipped", "skipped"]
FAILURE = ["completed", "failed", "skipped", "skipped"]
GOES_ON = ["completed", "stopped", "skipped", "skipped"]


def ending(how: Ended) -> End:
    return lambda database, session, claimed: _accepted(tasks.ends(session, claimed.lease, how))


def _accepted(done: object) -> None:
    assert done


def _force(database: Database, session: HotSession, claimed: Claimed) -> None:
    holder = claimed.lease.holder
    with database.engine.begin() as connection:
        assert force.force(connection, holder.worker, holder.pid, claimed.lease.token, tasks.CANCELLED)


def _expire(database: Database, session: HotSession, claimed: Claimed) -> None:
    tasks.expire_lease(database, claimed.lease.task_id)
    with database.engine.begin() as connection:
        assert recover.recover_expired(connection, crash_bound=3)


def _crash(database: Database, session: HotSession, claimed: Claimed) -> None:
    holder = claimed.lease.holder
    with database.engine.begin() as connection:
        assert recover.recover_process(connection, holder.worker, holder.pid, crash_bound=1)


def _cancel_a_dead_one(database: Database, session: HotSession, claimed: Claimed) -> None:
    tasks.cancel(database, claimed.lease.task_id)
    _expire(database, session, claimed)


def _by_hand(database: Database, session: HotSession, claimed: Claimed) -> None:
    task = claimed.lease.task_id
    tasks.run_sql(
        database,
        "update tasks set state = 'failed', outcome = 'error', finished_at = clock_timestamp() where id = :t",
        t=task,
    )
    tasks.run_sql(database, "delete from task_leases where task_id = :t", t=task)


ENDS: dict[str, tuple[End, str, list[str]]] = {
    "succeeded": (ending(tasks.SUCCEEDED), "succeeded", SUCCESS),
    "partially succeeded": (ending(tasks.PARTIALLY), "partially_succeeded", SUCCESS),
    "failed": (ending(tasks.FAILED), "failed", FAILURE),
    "rejected": (ending(tasks.REJECTED), "failed", FAILURE),
    "cancelled by its body": (ending(tasks.CANCELLED), "cancelled", FAILURE),
    "forced": (_force, "cancelled", FAILURE),
    "to be tried again": (lambda d, s, c: _accepted(s.retry_later(c.lease, tasks.AGAIN)), "scheduled", GOES_ON),
    "released": (lambda d, s, c: _accepted(s.release(c.lease)), "queued", GOES_ON),
    "recovered": (_expire, "queued", GOES_ON),
    "lost for good": (_crash, "failed", FAILURE),
    "cancelled by recovery": (_cancel_a_dead_one, "cancelled", FAILURE),
    "ended by hand": (_by_hand, "failed", FAILURE),
}


@pytest.mark.parametrize("end, state, expected", ENDS.values(), ids=list(ENDS))
def test_however_an_attempt_ends_none_of_its_phases_stays_open(
    database: Database, session: HotSession, end: End, state: str, expected: list[str]
) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    assert declare(database, claimed, *GIVEN)
    end(database, session, claimed)
    assert tasks.state(database, claimed.lease.task_id) == state
    assert statuses(database, claimed.lease.task_id) == expected
    ended = "select array_agg(ended_at is not null order by position) from activity_phases"
    assert tasks.value(database, ended) == [True, True, False, False]


def test_the_ends_of_a_batch_close_the_phases_of_each(database: Database, session: HotSession) -> None:
    held = [tasks.claimed(session, tasks.submit(database)) for _ in range(3)]
    for claimed in held[:2]:
        declare(database, claimed, "running", "pending")
    accepted, _ = session.end([claimed.lease for claimed in held], tasks.SUCCEEDED)
    assert len(accepted) == 3
    assert [statuses(database, claimed.lease.task_id) for claimed in held] == [["completed", "skipped"]] * 2 + [[]]


def test_the_next_attempt_puts_its_phases_in_the_place_of_the_last_ones(
    database: Database, session: HotSession
) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    declare(database, claimed, "completed", "running", "pending")
    session.release(claimed.lease)
    again = tasks.claimed(session, claimed.lease.task_id)
    assert statuses(database, claimed.lease.task_id) == ["completed", "stopped", "skipped"]
    assert declare(database, again, "pending", "pending")
    assert seen(database, claimed.lease.task_id) == [("phase 0", "pending"), ("phase 1", "pending")]
    assert tasks.value(database, "select count(started_at) + count(ended_at) from activity_phases") == 0


def test_tasks_that_share_an_activity_have_their_phases_side_by_side(database: Database, session: HotSession) -> None:
    first = tasks.submit(database)
    second = tasks.submit(database, activity=first)
    held = [tasks.claimed(session, task) for task in (first, second)]
    for claimed in held:
        assert declare(database, claimed, "running")
    assert tasks.ends(session, held[0].lease, tasks.SUCCEEDED)
    assert [statuses(database, task) for task in (first, second)] == [["completed"], ["running"]]
    assert tasks.value(database, "select array_agg(distinct activity_id) from activity_phases") == [first]


def test_a_second_write_keeps_the_start_and_changes_only_what_it_names(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    declare(database, claimed, "running", "pending")
    began = tasks.value(database, "select started_at from activity_phases where position = 0")
    row = a_phase(0, "running", done=5, total=9, message="x", started_ago=50.0)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert phases.write(connection, claimed.lease, claimed.activity_id, [row], anew=False)
    assert tasks.value(database, "select started_at from activity_phases where position = 0") == began
    assert tasks.value(database, "select array[done, total] from activity_phases where position = 0") == [5, 9]
    assert statuses(database, claimed.lease.task_id) == ["running", "pending"]


def test_a_write_tells_who_listens_the_activity_and_nothing_else(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    listener = psycopg2.connect(**driver_dsn(database.url))
    try:
        listener.autocommit = True
        listener.cursor().execute(f"listen {phases.CHANNEL}")
        declare(database, claimed, "running")
        session.end([claimed.lease], tasks.SUCCEEDED)

        def told() -> list[str]:
            listener.poll()
            return [notice.payload for notice in listener.notifies]

        until(lambda: len(told()) == 2)
        assert told() == [str(claimed.activity_id)] * 2
    finally:
        listener.close()


def test_an_end_does_not_wait_for_locked_phases_and_housekeeping_closes_them(
    database: Database, session: HotSession
) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    other = tasks.claimed(session, tasks.submit(database))
    for one in (claimed, other):
        declare(database, one, "running", "pending")
    with database.engine.begin() as holding:
        holding.execute(text("lock table activity_phases in access exclusive mode"))
        assert tasks.ends(session, claimed.lease, tasks.SUCCEEDED)
        assert tasks.state(database, claimed.lease.task_id) == "succeeded"
    assert statuses(database, claimed.lease.task_id) == ["running", "pending"]
    with database.engine.begin() as connection:
        assert phases.close_left_open(connection) == 2
        assert phases.close_left_open(connection) == 0
    assert statuses(database, claimed.lease.task_id) == ["completed", "skipped"]
    assert statuses(database, other.lease.task_id) == ["running", "pending"], "its attempt goes on"


def test_a_sweep_of_many_waits_for_locked_phases_once(database: Database, session: HotSession) -> None:
    held = [tasks.claimed(session, task) for task in tasks.submit_many(database, 30)]
    for claimed in held:
        declare(database, claimed, "running")
    tasks.expire_lease(database, *(claimed.lease.task_id for claimed in held))
    with database.engine.begin() as holding:
        holding.execute(text("lock table activity_phases in access exclusive mode"))
        began = time.monotonic()
        with database.engine.begin() as connection:
            assert len(recover.recover_expired(connection, crash_bound=3)) == 30
        assert time.monotonic() - began < 2, "30 waits of 0.1 s would be 3"
    with database.engine.begin() as connection:
        assert phases.close_left_open(connection) == 30


def test_phases_go_with_their_activity_and_with_nothing_else(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    declare(database, claimed, "running")
    session.end([claimed.lease], tasks.SUCCEEDED)
    tasks.run_sql(database, "delete from tasks where id = :t", t=claimed.lease.task_id)
    assert statuses(database, claimed.lease.task_id) == ["completed"]
    tasks.run_sql(database, "delete from activities where id = :a", a=claimed.activity_id)
    assert statuses(database, claimed.lease.task_id) == []


def test_an_attempt_without_phases_leaves_no_trace_of_any(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    calls = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname like '%close_phases'"
    with database.engine.begin() as connection:
        connection.execute(text("set local track_functions = 'all'"))
        connection.execute(text("delete from task_leases where task_id = :t"), {"t": claimed.lease.task_id})
        assert connection.execute(text(calls)).scalar_one() == 0


def test_the_phases_of_no_activity_are_refused_and_change_nothing(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    tasks.run_sql(database, "delete from activities where id = :a", a=claimed.activity_id)
    before = snapshot(database)
    with pytest.raises(Exception, match="activity_phases_activity_id_fkey"):
        declare(database, claimed, "running")
    assert changed(before, snapshot(database)) == []


def test_progress_updates_stay_on_their_page(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    declare(database, claimed, "running")
    counts = "select pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) from cast('activity_phases' as regclass) c"
    with database.engine.begin() as connection:
        before = connection.execute(text(counts)).one()
        for done in range(20):
            assert phases.write(connection, claimed.lease, claimed.activity_id, [a_phase(0, done=done)], anew=False)
        after = connection.execute(text(counts)).one()
    assert [now - then for now, then in zip(after, before, strict=True)] == [20, 20]
