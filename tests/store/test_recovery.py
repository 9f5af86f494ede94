"""What becomes of a task whose worker is gone, and that nobody takes it twice."""

import itertools
import time
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tenure import registry
from tenure.model.errors import UnknownKind
from tenure.model.kinds import KindSpec
from tenure.model.records import Ended, Lease
from tenure.model.states import State
from tenure.store.hot import HotSession, RunOn
from tenure.store.transitions import due, recover
from tenure.store.transitions.force import force
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

BOUND = 3
RESUMES = KindSpec("store.resumes", params=tasks.Anything, on_lost="resume")
FAILS = KindSpec("store.fails", params=tasks.Anything, on_lost="fail")
Fate = tuple[UUID, str, str | None]


def sweep(database: Database, bound: int = BOUND) -> list[Fate]:
    with database.engine.begin() as connection:
        return recover.recover_expired(connection, crash_bound=bound)


def drain(database: Database) -> list[list[Fate]]:
    batches = []
    while batch := sweep(database):
        batches.append(batch)
    return batches


def lost(database: Database, spec: KindSpec, *, asked: bool, late: bool, crashed: bool) -> UUID:
    """A task whose lease has expired."""
    task_id = tasks.submit(database, spec)
    with tasks.worker(database, kinds=[spec]) as session:
        tasks.claimed(session, task_id)
    if asked:
        assert tasks.cancel(database, task_id) == State.RUNNING
    if late:
        past = "update task_leases set deadline = clock_timestamp() - interval '1 s' where task_id = :id"
        tasks.run_sql(database, past, id=task_id)
    if crashed:
        tasks.run_sql(database, "update tasks set crashes = :n where id = :id", n=BOUND - 1, id=task_id)
    tasks.expire_lease(database, task_id)
    return task_id


def fate(*, asked: bool, late: bool, crashed: bool, resumes: bool) -> tuple[str, str | None]:
    """The order of the design, written down once more."""
    if asked:
        return "cancelled", None
    if late:
        return "failed", "deadline_exceeded"
    if crashed or not resumes:
        return "failed", "worker_lost"
    return "queued", None


FLAGS = [
    dict(zip(("asked", "late", "crashed", "resumes"), flags, strict=True))
    for flags in itertools.product((True, False), repeat=4)
]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "-".join(n for n, on in flags.items() if on) or "plain")
def test_recovery_decides_in_the_order_cancel_deadline_crash_bound_on_lost(
    database: Database, flags: dict[str, bool]
) -> None:
    rest = {name: on for name, on in flags.items() if name != "resumes"}
    task_id = lost(database, RESUMES if flags["resumes"] else FAILS, **rest)
    expected = fate(**flags)
    assert sweep(database) == [(task_id, *expected)]
    seen = tasks.task(database, task_id)
    assert (seen["state"], seen["outcome"], seen["lease"]) == (*expected, None)
    assert seen["crashes"] == (BOUND if flags["crashed"] else 1)
    assert (seen["history"][-1]["verb"], seen["history"][-1]["state"]) == ("recover", expected[0])
    assert [a["how"] for a in seen["attempts"]] == ["lost"]
    assert tasks.value(database, "select count(*) from task_params") == (expected[0] == "queued")
    status = {"queued": "in_progress", "cancelled": "cancelled", "failed": "failed"}[expected[0]]
    assert tasks.value(database, "select status from activities where task_id = :id", id=task_id) == status


def test_recovery_needs_no_registered_kind(database: Database) -> None:
    task_id = lost(database, RESUMES, asked=False, late=False, crashed=False)
    with pytest.raises(UnknownKind):
        registry.load(()).spec(RESUMES.name)
    assert sweep(database) == [(task_id, "queued", None)]


def test_a_recovered_task_is_hinted_and_claimed_again_where_it_was(database: Database, session: HotSession) -> None:
    first = tasks.claimed(session, tasks.submit(database)).lease
    with database.engine.begin() as connection:
        assert tasks.checkpoint(connection, first)
    tasks.run_sql(database, "delete from task_hints")  # long since published
    tasks.expire_lease(database, first.task_id)
    assert sweep(database) == [(first.task_id, "queued", None)]
    assert tasks.value(database, "select count(*) from task_hints where task_id = :id", id=first.task_id) == 1
    (again,) = session.claim_next(RunOn("default", [tasks.PLAIN.name]))
    assert again.lease.token > first.token
    assert (again.attempt, again.crashes, again.cursor, again.sequence) == (2, 1, '{"at": 1}', 1)


def test_an_ended_recovery_leaves_no_hint(database: Database) -> None:
    lost(database, FAILS, asked=False, late=False, crashed=False)
    tasks.run_sql(database, "delete from task_hints")
    sweep(database)
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_a_crash_bound_of_one_recovers_nothing_twice(database: Database) -> None:
    task_id = lost(database, RESUMES, asked=False, late=False, crashed=False)
    assert sweep(database, bound=1) == [(task_id, "failed", "worker_lost")]


def test_250_expired_leases_are_drained_in_batches(database: Database, session: HotSession) -> None:
    ids = _expired(database, session, 250)
    batches = drain(database)
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert sorted(row[0] for batch in batches for row in batch) == sorted(ids)
    assert tasks.value(database, "select count(*) from task_leases") == 0
    assert tasks.value(database, "select count(*) from tasks where state = 'queued' and crashes = 1") == 250


def test_two_recoverers_racing_take_each_task_once(database: Database, session: HotSession) -> None:
    ids = _expired(database, session, 250)
    both = together(lambda: drain(database), lambda: drain(database))
    taken = [row[0] for batches in both for batch in batches for row in batch]
    # A sweep that met only rows of the other is empty and stops: the next round takes what may be left.
    taken += [row[0] for batch in drain(database) for row in batch]
    assert sorted(taken) == sorted(ids)
    assert tasks.value(database, "select array_agg(distinct crashes) from tasks") == [1]
    assert tasks.value(database, "select count(*) from task_attempts") == 250


def _expired(database: Database, session: HotSession, count: int) -> list[UUID]:
    ids = tasks.submit_many(database, count)
    got = session.claim_next(RunOn("default", [tasks.PLAIN.name], count))
    assert sorted(one.lease.task_id for one in got) == sorted(ids)
    tasks.expire_lease(database, *ids)
    return ids


def test_a_lease_renewed_between_look_and_lock_is_not_stolen(database: Database, session: HotSession) -> None:
    count = tasks.scale(500, 80)
    lease = tasks.claimed(session, tasks.submit(database)).lease
    renew = "update task_leases set expires = clock_timestamp() + interval '1 min' where token = :token"
    held = [lease]

    def renewed(late: bool) -> int:
        time.sleep(0.003 * late)  # so that each wins some
        return tasks.run_sql(database, renew, token=held[-1].token)

    won = []
    for number in range(count):
        tasks.expire_lease(database, lease.task_id)
        kept, stolen = together(partial(renewed, number % 2 == 1), lambda: len(sweep(database, bound=1 << 30)))
        assert kept + stolen == 1
        assert tasks.state(database, lease.task_id) == (State.RUNNING if kept else State.QUEUED)
        won.append(kept)
        if stolen:
            held.append(tasks.claimed(session, lease.task_id).lease)
    assert 0 < sum(won) < count, "no race was decided the other way"


def test_a_live_lease_is_left_alone(database: Database, session: HotSession) -> None:
    tasks.claimed(session, tasks.submit(database))
    assert sweep(database) == []


def test_a_dead_process_loses_what_it_held_and_no_other(database: Database) -> None:
    task_ids = tasks.submit_many(database, 3)
    with tasks.worker(database, pid=1) as dead, tasks.worker(database, boot=dead.holder.worker, pid=2) as sibling:
        with tasks.worker(database, pid=1) as elsewhere:
            for session, task_id in zip((dead, sibling, elsewhere), task_ids, strict=True):
                tasks.claimed(session, task_id)
        with database.engine.begin() as connection:
            settled = recover.recover_process(connection, dead.holder.worker, 1, crash_bound=BOUND)
            assert recover.recover_process(connection, dead.holder.worker, 1, crash_bound=BOUND) == []
    assert settled == [(task_ids[0], "queued", None)]
    assert [tasks.state(database, i) for i in task_ids] == ["queued", "running", "running"]


def test_tasks_that_share_an_activity_are_recovered_together(database: Database) -> None:
    first = tasks.submit(database, FAILS)
    second = tasks.submit(database, FAILS, activity=first)
    with tasks.worker(database, kinds=[FAILS]) as session:
        for task_id in (first, second):
            tasks.claimed(session, task_id)
    tasks.cancel(database, first)
    tasks.expire_lease(database, first, second)
    assert sorted(row[1] for row in sweep(database)) == ["cancelled", "failed"]
    assert tasks.value(database, "select status from activities where id = :id", id=first) == "failed"


def test_tasks_that_share_an_activity_expire_and_end_together(database: Database, session: HotSession) -> None:
    first = tasks.submit(database)
    others = [tasks.submit(database, activity=first) for _ in range(3)]
    held: list[Lease] = [tasks.claimed(session, task_id).lease for task_id in (first, others[0])]
    late = "update tasks set deadline = clock_timestamp() - interval '1 s' where state = 'queued'"
    assert tasks.run_sql(database, late) == 2
    with database.engine.begin() as connection:
        assert sorted(due.expire(connection)) == sorted(others[1:])
    accepted, _ = session.end(held, tasks.SUCCEEDED)
    assert len(accepted) == 2


# -- one token, by whoever knows that its holder is gone ---------------------------------------------------------------


@pytest.mark.parametrize("stale", ["older token", "other boot", "other pid"])
@pytest.mark.parametrize("how", [tasks.CANCELLED, Ended("release", "queued")], ids=["end", "release"])
def test_a_forced_end_takes_exactly_its_token(database: Database, session: HotSession, stale: str, how: Ended) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    worker = uuid4() if stale == "other boot" else lease.holder.worker
    pid = lease.holder.pid + (stale == "other pid")
    token = lease.token - (stale == "older token")
    before = snapshot(database)
    with database.engine.begin() as connection:
        assert force(connection, worker, pid, token, how) is None
    assert changed(before, snapshot(database)) == []
    with database.engine.begin() as connection:
        assert force(connection, lease.holder.worker, lease.holder.pid, lease.token, how) == lease.task_id
    seen = tasks.task(database, lease.task_id)
    assert (seen["state"], seen["attempts"][0]["forced"], seen["history"][-1]["note"]) == (how.state, True, "forced")


@pytest.mark.parametrize("stale", ["older token", "other boot", "other pid"])
def test_a_holder_recovers_exactly_its_own_lease(database: Database, session: HotSession, stale: str) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    boot = uuid4() if stale == "other boot" else lease.holder.worker
    believed = replace(lease, token=lease.token - (stale == "older token"))
    before = snapshot(database)
    with tasks.worker(database, boot=boot, pid=lease.holder.pid + (stale == "other pid")) as believer:
        assert believer.recover_one(believed, BOUND) is None
    assert changed(before, snapshot(database)) == []
    assert session.recover_one(lease, BOUND) == ("queued", None)
    assert session.recover_one(lease, BOUND) is None


def test_a_boot_that_is_gone_loses_all_its_leases(database: Database) -> None:
    task_ids = tasks.submit_many(database, 3)
    with (
        tasks.worker(database, pid=1) as one,
        tasks.worker(database, boot=one.holder.worker, pid=2) as two,
        tasks.worker(database, pid=1) as elsewhere,
    ):
        for session, task_id in zip((one, two, elsewhere), task_ids, strict=True):
            tasks.claimed(session, task_id)
    with database.engine.begin() as connection:
        settled = recover.recover_boot(connection, one.holder.worker, crash_bound=BOUND)
    assert sorted(row[0] for row in settled) == sorted(task_ids[:2])
    assert tasks.state(database, task_ids[2]) == State.RUNNING


@pytest.mark.parametrize("table", ["tasks", "activities"])
def test_a_row_that_somebody_holds_keeps_no_other_task_from_being_settled(
    database: Database, session: HotSession, table: str
) -> None:
    """A caller with an open transaction delays the task it has in it, not the hundred others of a sweep."""
    held, *others = tasks.submit_many(database, 4, tasks.ONCE)
    late = [tasks.submit(database, tasks.ONCE) for _ in range(2)]
    for task_id in (held, *others):
        tasks.claimed(session, task_id)
    tasks.expire_lease(database, held, *others)
    tasks.run_sql(database, "update tasks set start_by = clock_timestamp() where id = any(:ids)", ids=late)
    hold = text(f"select 1 from {table} where id = any(:ids) for update")
    with database.engine.begin() as connection:
        connection.execute(hold, {"ids": [held, late[0]]})
        with database.engine.begin() as sweeper:
            tasks.bounded(sweeper)
            assert {fate[0] for fate in recover.recover_expired(sweeper, crash_bound=BOUND)} == set(others)
            assert due.expire(sweeper) == late[1:]
    assert [fate[0] for fate in sweep(database)] == [held]
