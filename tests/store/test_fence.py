"""Page, renewal and steal on connections of their own: who passes, who waits, who skips."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from tenure.model.records import Claimed, Lease
from tenure.model.states import State
from tenure.store import leases
from tenure.store.hot import HotSession, RunOn
from tenure.store.transitions import recover
from tests.support import tasks
from tests.support.databases import Database
from tests.support.until import until

T = TypeVar("T")

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
EXPIRES = "select expires from task_leases where task_id = :id"


@pytest.fixture
def held(database: Database, session: HotSession) -> Claimed:
    return tasks.claimed(session, tasks.submit(database))


@contextmanager
def page(database: Database, lease: Lease) -> Iterator[Connection]:
    """A page just before its commit: effects written, lease fenced."""
    with database.engine.begin() as connection:
        assert leases.live(connection, lease)
        assert tasks.checkpoint(connection, lease)
        assert leases.fence(connection, lease)
        yield connection


@contextmanager
def steal(database: Database, lease: Lease) -> Iterator[Connection]:
    """A recovery just before its commit."""
    with database.engine.connect() as connection, connection.begin():
        taken = recover.recover_process(connection, lease.holder.worker, lease.holder.pid, crash_bound=3)
        assert [row[0] for row in taken] == [lease.task_id]
        yield connection


def renew(database: Database, lease: Lease, *tokens: int, seconds: float = 60.0) -> list[leases.Renewal]:
    with database.engine.begin() as connection:
        tasks.bounded(connection)
        return leases.renew(connection, lease.holder.worker, tokens or [lease.token], lease_seconds=seconds, grace=0.0)


def sweep(database: Database) -> list[UUID]:
    with database.engine.begin() as connection:
        tasks.bounded(connection)
        return [row[0] for row in recover.recover_expired(connection, crash_bound=3)]


def held_up(database: Database, action: Callable[[], T], let_go: Callable[[], object]) -> T:
    """The answer of an action that has to wait for a lock until somebody lets go."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(action)
        until(lambda: tasks.value(database, WAITING) or answer.done())
        assert not answer.done(), "it did not wait"
        let_go()
        return answer.result(10)


def test_a_renewal_passes_beside_a_fenced_page(database: Database, held: Claimed) -> None:
    before = tasks.value(database, EXPIRES, id=held.lease.task_id)
    with page(database, held.lease):
        assert [one.renewed for one in renew(database, held.lease)] == [True]
        assert tasks.value(database, EXPIRES, id=held.lease.task_id) > before
    assert tasks.value(database, "select sequence from task_checkpoints") == 1


def test_a_page_passes_beside_a_renewal_that_is_not_committed(database: Database, held: Claimed) -> None:
    with database.engine.begin() as renewing:
        worker = held.lease.holder.worker
        leases.renew(renewing, worker, [held.lease.token], lease_seconds=60.0, grace=0.0)
        with database.engine.begin() as connection:
            tasks.bounded(connection)
            assert tasks.checkpoint(connection, held.lease)
            assert leases.fence(connection, held.lease)


def test_a_steal_takes_nothing_while_a_page_is_fenced_and_does_not_wait(database: Database, held: Claimed) -> None:
    with page(database, held.lease):
        tasks.expire_lease(database, held.lease.task_id)
        assert sweep(database) == []
        assert tasks.state(database, held.lease.task_id) == State.RUNNING
    assert sweep(database) == [held.lease.task_id]
    assert tasks.value(database, "select sequence from task_checkpoints") == 1, "the page had committed first"


def test_a_page_that_was_not_fenced_yet_holds_up_no_steal(database: Database, held: Claimed) -> None:
    with database.engine.connect() as connection, connection.begin() as transaction:
        assert leases.live(connection, held.lease)
        assert tasks.checkpoint(connection, held.lease)
        tasks.expire_lease(database, held.lease.task_id)
        assert sweep(database) == [held.lease.task_id]
        assert not leases.fence(connection, held.lease)
        transaction.rollback()
    assert tasks.value(database, "select count(*) from task_checkpoints") == 0


@pytest.mark.parametrize("done", ["committed", "rolled back"])
def test_the_fence_waits_for_a_steal_in_progress(database: Database, held: Claimed, done: str) -> None:
    def fence() -> bool:
        with database.engine.begin() as connection:
            return leases.fence(connection, held.lease)

    with steal(database, held.lease) as stealing:
        with database.engine.begin() as looking:
            tasks.bounded(looking)
            assert leases.live(looking, held.lease), "the look at entry waits for nobody"
        settle = stealing.commit if done == "committed" else stealing.rollback
        assert held_up(database, fence, settle) == (done == "rolled back")


ENDS: dict[str, Callable[[HotSession, Lease], bool]] = {
    "end": lambda session, lease: tasks.ends(session, lease, tasks.SUCCEEDED),
    "retry_later": lambda session, lease: session.retry_later(lease, tasks.AGAIN),
    "release": lambda session, lease: session.release(lease),
    "begin": lambda session, lease: session.begin(lease),
}


@pytest.mark.parametrize("verb", ENDS)
def test_an_end_waits_for_a_steal_in_progress_and_is_refused(
    database: Database, session: HotSession, held: Claimed, verb: str
) -> None:
    with steal(database, held.lease) as stealing:
        assert held_up(database, lambda: ENDS[verb](session, held.lease), stealing.commit) is False
    assert tasks.state(database, held.lease.task_id) == State.QUEUED
    verbs = [e["verb"] for e in tasks.task(database, held.lease.task_id)["history"]]
    assert verbs == ["submit", "claim", "recover"]


def test_a_steal_waits_for_no_end_in_progress(database: Database, held: Claimed) -> None:
    tasks.expire_lease(database, held.lease.task_id)
    with database.engine.begin() as ending:
        ending.execute(text("delete from task_leases where task_id = :id"), {"id": held.lease.task_id})
        assert sweep(database) == []


def test_one_locked_lease_of_a_thousand_holds_up_no_renewal(database: Database, session: HotSession) -> None:
    count = tasks.scale(1000, 300)
    tasks.submit_many(database, count)
    got = session.claim_next(RunOn("default", [tasks.PLAIN.name], count))
    tokens = [one.lease.token for one in got]
    locked = got[count // 2].lease
    assert len(got) == count
    before = tasks.value(database, EXPIRES, id=locked.task_id)
    with database.engine.begin() as other:
        other.execute(text("select 1 from task_leases where task_id = :id for update"), {"id": locked.task_id})
        answers = renew(database, locked, *tokens)
    assert [one.token for one in answers if not one.renewed] == [locked.token]
    assert {one.token for one in answers} == set(tokens), "a skipped lease is not a lost one"
    assert tasks.value(database, EXPIRES, id=locked.task_id) == before
    fresh = "select count(*) from task_leases where expires > clock_timestamp() + interval '40 s'"
    assert tasks.value(database, fresh) == count - 1
    assert all(one.renewed for one in renew(database, locked, *tokens))


def test_a_lease_that_no_slot_holds_is_renewed_only_while_it_is_young(database: Database, held: Claimed) -> None:
    def by_grace(grace: float) -> list[bool]:
        with database.engine.begin() as connection:
            worker = held.lease.holder.worker
            return [one.renewed for one in leases.renew(connection, worker, [], lease_seconds=30.0, grace=grace)]

    assert by_grace(60.0) == [True]
    assert by_grace(0.0) == []


def test_a_renewal_tells_the_time_left_to_the_deadline(database: Database, session: HotSession, held: Claimed) -> None:
    assert [one.seconds_to_deadline for one in renew(database, held.lease)] == [None]
    tasks.run_sql(database, "update task_leases set deadline = clock_timestamp() + interval '100 s'")
    (left,) = [one.seconds_to_deadline for one in renew(database, held.lease)]
    assert left is not None
    assert 90 < left < 100


def test_a_worker_is_told_which_of_its_tasks_have_to_stop(database: Database, session: HotSession) -> None:
    asked, late, fine = (tasks.claimed(session, tasks.submit(database)).lease for _ in range(3))
    with tasks.worker(database) as other:
        elsewhere = tasks.claimed(other, tasks.submit(database)).lease
    for lease in (asked, elsewhere):
        tasks.cancel(database, lease.task_id)
    past = "update task_leases set deadline = clock_timestamp() - interval '1 s' where task_id = :id"
    tasks.run_sql(database, past, id=late.task_id)
    with database.engine.connect() as connection:
        holdings = leases.holdings(connection, session.holder.worker)
        told = [(one.token, one.task_id, one.cancel) for one in holdings if one.cancel or one.late]
        assert leases.held_by(connection, session.holder.worker, session.holder.pid + 1) == []
        held = leases.held_by(connection, session.holder.worker, session.holder.pid)
    assert sorted(told) == sorted([(asked.token, asked.task_id, True), (late.token, late.task_id, False)])
    assert sorted(held) == sorted((lease.task_id, lease.token) for lease in (asked, late, fine))
    assert sorted(session.held(), key=lambda one: one.token) == [asked, late, fine]
