"""Every fenced statement against every way of having lost the lease: nothing changes, anywhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import pytest
from pydantic import BaseModel

from tenure.model.records import Claimed, Holder, Lease
from tenure.model.states import State
from tenure.model.stops import LeaseLost
from tenure.runtime.attempt import Attempt
from tenure.runtime.channel import StopChannel
from tenure.runtime.connections import Connections
from tenure.runtime.phases import Narrator
from tenure.runtime.seat import boottime_ns
from tenure.runtime.shutdown import Shutdown
from tenure.store import leases, phases
from tenure.store.hot import HotSession, RunOn
from tenure.store.transitions import recover
from tests.support import tasks
from tests.support.databases import Database
from tests.support.phases import a_phase
from tests.support.snapshots import changed, snapshot

STALE = ("older token", "expired lease", "other boot", "other pid")


class Place(BaseModel):
    at: int = 0


@contextmanager
def attempt_of(database: Database, session: HotSession, claimed: Claimed) -> Iterator[Attempt]:
    """The attempt as a body sees it, with a trust that the database no longer shares."""
    seat = StopChannel(1).seat(0)
    seat.hold(claimed.lease.token, boottime_ns() + 60 * 10**9)
    connections = Connections(database.url, lease_seconds=30.0, application="test attempt")
    narrator = Narrator(database.url, claimed.lease.holder.pid)
    attempt = Attempt(
        claimed,
        tasks.PLAIN,
        session=session,
        connections=connections,
        seat=seat,
        shutdown=Shutdown().watcher(),
        narrator=narrator,
    )
    try:
        yield attempt
    finally:
        attempt.close()
        connections.dispose()
        narrator.close()


def _end(database: Database, session: HotSession, claimed: Claimed) -> bool:
    done, _ = session.end([claimed.lease], tasks.SUCCEEDED, summaries=["done"], results=["1"])
    return bool(done)


def _end_and_claim(database: Database, session: HotSession, claimed: Claimed) -> bool:
    done, got = session.end([claimed.lease], tasks.FAILED, run_on=RunOn("default", [tasks.PLAIN.name], 8))
    assert not got, "nothing may be claimed on the strength of a refused end"
    return bool(done)


def _saved(database: Database, session: HotSession, claimed: Claimed) -> bool:
    with database.engine.begin() as connection:
        return tasks.checkpoint(connection, claimed.lease, claimed.sequence)


def _fence(database: Database, session: HotSession, claimed: Claimed) -> bool:
    with database.engine.begin() as connection:
        return leases.fence(connection, claimed.lease)


def _live(database: Database, session: HotSession, claimed: Claimed) -> bool:
    with database.engine.begin() as connection:
        return leases.live(connection, claimed.lease)


def _renewed(database: Database, session: HotSession, claimed: Claimed) -> bool:
    lease = claimed.lease
    with database.engine.begin() as connection:
        found = leases.renew(connection, lease.holder.worker, [lease.token], lease_seconds=90.0, grace=0.0)
    return any(one.renewed for one in found)


def _marked(database: Database, session: HotSession, claimed: Claimed) -> bool:
    with attempt_of(database, session, claimed) as attempt:
        try:
            return attempt.mark("update activities set message = 'marked'") == 1
        except LeaseLost:
            return False


def _page(database: Database, session: HotSession, claimed: Claimed) -> bool:
    """Progress: the effects of a page, its cursor and its counters."""
    with attempt_of(database, session, claimed) as attempt:
        try:
            with attempt.transaction() as tx:
                attempt.checkpoint(tx, Place(at=7), processed=10, failed=1)
        except LeaseLost:
            return False
        return True


def _phases(*, anew: bool) -> Callable[[Database, HotSession, Claimed], bool]:
    def write(database: Database, session: HotSession, claimed: Claimed) -> bool:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return phases.write(connection, claimed.lease, claimed.activity_id, [a_phase()], anew=anew)

    return write


def _narrated(database: Database, session: HotSession, claimed: Claimed) -> bool:
    with attempt_of(database, session, claimed) as attempt:
        attempt.begin(phases=["one", "two"])
        attempt.phase("two").__exit__(None, None, None)
        attempt.progress(7)
    return bool(tasks.value(database, "select count(*) from activity_phases where path = 'two' and done = 7"))


STATEMENTS: dict[str, Callable[[Database, HotSession, Claimed], bool]] = {
    "end": _end,
    "end and claim the next": _end_and_claim,
    "retry_later": lambda database, session, claimed: session.retry_later(claimed.lease, tasks.AGAIN),
    "release": lambda database, session, claimed: session.release(claimed.lease),
    "begin": lambda database, session, claimed: session.begin(claimed.lease),
    "checkpoint": _saved,
    "fence": _fence,
    "look at entry": _live,
    "renewal": _renewed,
    "mark": _marked,
    "page": _page,
    "phases": _phases(anew=True),
    "narration": _narrated,
}
# A renewal is the main process's, for all its children: it goes by boot and token.
CASES = [(name, stale) for name in STATEMENTS for stale in STALE if (name, stale) != ("renewal", "other pid")]


@contextmanager
def lost(database: Database, session: HotSession, stale: str) -> Iterator[tuple[HotSession, Claimed]]:
    """A task somebody holds, and who believes to hold it as well."""
    claimed = tasks.claimed(session, tasks.submit(database))
    task_id, holder = claimed.lease.task_id, claimed.lease.holder
    if stale in ("expired lease", "older token"):
        tasks.expire_lease(database, task_id)
    if stale == "older token":
        with database.engine.begin() as connection:
            assert recover.recover_expired(connection, crash_bound=3)
        # The same process again: only the token tells the two attempts apart.
        assert tasks.claimed(session, task_id).lease.token > claimed.lease.token
    if stale.startswith("other"):
        holder = Holder(uuid4(), holder.pid) if stale == "other boot" else Holder(holder.worker, holder.pid + 1)
    with tasks.worker(database, boot=holder.worker, pid=holder.pid) as believer:
        yield believer, replace(claimed, lease=Lease(task_id, claimed.lease.token, holder))


@pytest.mark.parametrize("statement, stale", CASES, ids=[f"{a}-{b}" for a, b in CASES])
def test_a_write_without_tenure_changes_nothing(
    database: Database, session: HotSession, statement: str, stale: str
) -> None:
    tasks.submit(database)  # what a run-on could take
    with lost(database, session, stale) as (believer, claimed):
        before = snapshot(database)
        assert not STATEMENTS[statement](database, believer, claimed)
        assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_same_write_with_tenure_is_accepted(database: Database, session: HotSession, statement: str) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    before = snapshot(database)
    assert STATEMENTS[statement](database, session, claimed)
    assert bool(changed(before, snapshot(database))) == (statement not in ("begin", "fence", "look at entry"))


def test_progress_without_tenure_changes_nothing(database: Database, session: HotSession) -> None:
    claimed = tasks.claimed(session, tasks.submit(database))
    assert _phases(anew=True)(database, session, claimed)
    assert _phases(anew=False)(database, session, claimed)
    tasks.expire_lease(database, claimed.lease.task_id)
    before = snapshot(database)
    assert not _phases(anew=False)(database, session, claimed)
    assert changed(before, snapshot(database)) == []


def test_one_stale_lease_in_a_batch_spoils_no_other_end(database: Database, session: HotSession) -> None:
    good, bad = (tasks.claimed(session, tasks.submit(database)).lease for _ in range(2))
    tasks.expire_lease(database, bad.task_id)
    accepted, _ = session.end([good, bad], tasks.SUCCEEDED, results=["1", "2"])
    assert accepted == {good.token}
    assert (tasks.state(database, good.task_id), tasks.state(database, bad.task_id)) == (State.SUCCEEDED, State.RUNNING)
    assert tasks.value(database, "select array_agg(result) from task_results") == [1]


def test_two_tokens_of_a_batch_cannot_be_swapped(database: Database, session: HotSession) -> None:
    one, two = (tasks.claimed(session, tasks.submit(database)).lease for _ in range(2))
    before = snapshot(database)
    accepted, _ = session.end([replace(one, token=two.token), replace(two, token=one.token)], tasks.SUCCEEDED)
    assert accepted == set()
    assert changed(before, snapshot(database)) == []


def test_a_checkpoint_of_a_superseded_sequence_changes_nothing(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    with database.engine.begin() as connection:
        assert tasks.checkpoint(connection, lease, 0)
        assert tasks.checkpoint(connection, lease, 1)
    before = snapshot(database)
    for expected in (0, 1, 3):
        with database.engine.begin() as connection:
            assert not tasks.checkpoint(connection, lease, expected)
    assert changed(before, snapshot(database)) == []


def test_a_sequence_without_its_checkpoint_is_refused(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    with database.engine.begin() as connection:
        assert not tasks.checkpoint(connection, lease, 3)
    assert tasks.value(database, "select count(*) from task_checkpoints") == 0


def test_counters_add_up_over_pages_and_attempts(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    for expected in range(3):
        claimed = tasks.claimed(session, task_id)
        assert claimed.sequence == expected
        with database.engine.begin() as connection:
            assert tasks.checkpoint(connection, claimed.lease, expected)
        assert session.release(claimed.lease)
    assert tasks.task(database, task_id)["counters"] == {"total": None, "processed": 3, "succeeded": 3, "failed": 0}
