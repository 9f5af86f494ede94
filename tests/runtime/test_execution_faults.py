"""Deaths at every statement of a start and of an advance, and members that end together while somebody cancels."""

import os
import time
from collections.abc import Callable
from itertools import count
from random import Random
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tenure import client, schedules
from tenure.model.executions import ExecutionState
from tenure.model.records import Lease
from tenure.runtime.advancing import Advancer
from tenure.services.net import SafetyNet
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store.advance import Advanced, advance
from tenure.store.hot import HotSession
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.faults import dies_at, session_ends_at
from tests.support.forks import forked
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

WAYS = {"the process dies": dies_at, "the session ends": session_ends_at}
WHOLE = [(0, "queued"), (0, "queued"), (1, "waiting")]


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def fault(request: pytest.FixtureRequest) -> Callable[[int, Callable[[], None], Database], bool]:
    return request.param


def run_now(database: Database) -> UUID:
    with database.engine.begin() as connection:
        return schedules.run_now(connection, "nightly", initiator=tasks.ADA)


def queued(database: Database, execution_id: UUID) -> list[UUID]:
    statement = "select id from tasks where execution_id = :id and state = 'queued' order by id"
    return [row[0] for row in made.rows(database, statement, id=execution_id)]


def test_a_start_that_dies_at_any_statement_has_not_begun(
    database: Database, fault: Callable[[int, Callable[[], None], Database], bool]
) -> None:
    made.add(database, "nightly", ["step.ok", "step.ok"], "step.fails", overlap="allow")

    def fire() -> None:
        with made.scheduler(database) as service:
            service.run_once()

    for point in count(1):
        made.let_come(database)
        database.engine.dispose()  # a fork must not inherit a connection
        before = snapshot(database)
        if not fault(point, fire, database):
            break
        assert changed(before, snapshot(database)) == [], f"died before point {point}"
        assert made.fire(database) == point, "the next one claims the same occurrence"
        assert made.members(database) == WHOLE
        tasks.run_sql(database, "delete from tasks")
    assert point > 6, "look, claim, two inserts, the next time and the commit at least"
    assert made.members(database) == WHOLE


def test_a_start_that_dies_after_its_commit_is_whole_and_is_not_repeated(database: Database) -> None:
    made.add(database, "nightly", ["step.ok", "step.ok"], "step.fails")
    made.let_come(database)
    database.engine.dispose()

    def fire(_: object) -> None:
        with made.scheduler(database, started=lambda _state, _late: os._exit(9)) as service:
            service.run_once()

    with forked(fire) as child:
        assert child.end() == 9
    assert made.members(database) == WHOLE
    assert made.fire(database) == 1


def test_an_advance_that_dies_at_any_statement_moved_nothing_and_the_next_moves_all(
    database: Database, fault: Callable[[int, Callable[[], None], Database], bool]
) -> None:
    made.add(database, "nightly", "step.ok", ["step.ok", "step.ok"], overlap="allow")
    with tasks.worker(database, kinds=made.kinds().specs) as session:
        for point in count(1):
            execution_id = run_now(database)
            (first,) = queued(database, execution_id)
            assert tasks.ends(session, tasks.claimed(session, first).lease, tasks.SUCCEEDED)

            def advance(execution_id: UUID = execution_id) -> None:
                with made.advancer(database) as advancer:
                    advancer.advance([execution_id])

            database.engine.dispose()
            before = snapshot(database)
            if not fault(point, advance, database):
                break
            assert changed(before, snapshot(database)) == [], f"died before point {point}"
            advance()
            assert [state for _, state in made.members(database, execution_id)] == ["succeeded", "queued", "queued"]
            assert len(queued(database, execution_id)) == 2
    assert point > 5, "lock, members, move, promote, notify and the commit"


def test_an_error_in_the_advance_leaves_the_tasks_outcome_untouched(database: Database) -> None:
    made.add(database, "nightly", "step.ok", "step.ok")
    run_now(database)
    refuse = """create function refuse_move() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
        create trigger refuse_move before update on executions for each row execute function refuse_move()"""
    with database.engine.begin() as connection:
        connection.execute(text(refuse))
    try:
        assert made.work(database) == 1
        assert made.members(database) == [(0, "succeeded"), (1, "waiting")]
        assert tasks.value(database, "select count(*) from execution_due") == 1
    finally:
        with database.engine.begin() as connection:
            connection.execute(text("drop function refuse_move cascade"))
    sweep(database)
    assert made.work(database) == 1
    assert made.executions(database) == [("succeeded", None)]


def test_an_execution_that_cannot_be_read_costs_neither_its_task_nor_whoever_passes_by(database: Database) -> None:
    made.add(database, "nightly", "step.ok", "step.ok", overlap="allow")
    run_now(database)
    fine = run_now(database)
    tasks.run_sql(
        database, """update executions set plan = '[[{"of another": "version"}]]' where id <> :fine""", fine=fine
    )
    assert made.work(database) == 3
    assert made.members(database, fine) == [(0, "succeeded"), (1, "succeeded")]
    sweep(database)
    assert sorted(state for state, _ in made.executions(database)) == ["running", "succeeded"]
    assert sorted(made.members(database)) == [(0, "succeeded")] * 2 + [(1, "succeeded"), (1, "waiting")]


def test_a_caller_that_holds_the_execution_delays_the_advance_and_not_the_end_of_the_task(database: Database) -> None:
    made.add(database, "nightly", "step.ok", "step.ok")
    execution_id = run_now(database)
    with database.engine.begin() as connection:
        schedules.cancel_execution(connection, execution_id, initiator=tasks.ADA)
        connection.rollback()
    with database.engine.begin() as connection:
        connection.execute(text("select 1 from executions for update"))
        assert made.work(database) == 1
        assert made.members(database) == [(0, "succeeded"), (1, "waiting")]
    sweep(database)
    assert made.members(database) == [(0, "succeeded"), (1, "queued")]


def test_a_sweep_waits_for_no_execution_that_somebody_holds(database: Database) -> None:
    made.add(database, "nightly", "step.ok", "step.ok", overlap="allow")
    run_now(database)
    with database.engine.begin() as connection, tasks.worker(database, kinds=made.kinds().specs) as session:
        (task_id,) = (row[0] for row in made.rows(database, "select id from tasks where state = 'queued'"))
        assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
        connection.execute(text("select 1 from executions for update"))
        with made.advancer(database) as advancer:
            began = time.monotonic()
            assert advancer.pending(older=0.0) == 0
            assert time.monotonic() - began < 0.9, "below its lock timeout"
        assert tasks.value(database, "select count(*) from execution_due") == 1, "it is looked at again"
    sweep(database)
    assert made.members(database) == [(0, "succeeded"), (1, "queued")]


def test_an_execution_that_waited_starts_although_whoever_ended_the_other_died(database: Database) -> None:
    made.add(database, "nightly", "step.ok", overlap="queue_one")
    first, second = run_now(database), run_now(database)
    (task_id,) = queued(database, first)
    with tasks.worker(database, kinds=made.kinds().specs) as session:
        assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
    with database.engine.begin() as connection:
        assert advance(connection, first) is not None  # and no look for who waited
    tasks.run_sql(database, "delete from execution_due")
    tasks.run_sql(database, "update executions set created_at = created_at - interval '1 minute'")
    net = SafetyNet(Settings(database_url=database.url))
    net.run_once()
    net.close()
    assert len(queued(database, second)) == 1


def test_two_that_wait_do_not_start_together(database: Database) -> None:
    """Two nets at once, each with another of them: neither may find that none runs while the other starts its own."""
    made.add(database, "nightly", "step.ok", overlap="queue_one")
    first, second = run_now(database), run_now(database)
    tasks.run_sql(
        database, "update executions set state = 'succeeded', finished_at = clock_timestamp() where id = :id", id=first
    )
    tasks.run_sql(database, "update executions set state = 'running' where id = :id", id=second)
    third = run_now(database)
    tasks.run_sql(database, "update executions set state = 'waiting' where id = :id", id=second)
    with database.engine.begin() as one, database.engine.connect() as two:
        assert advance(one, second) == Advanced(ExecutionState.RUNNING, queued=1)
        tasks.bounded(two)
        with pytest.raises(OperationalError):
            advance(two, third)
        two.rollback()
    with database.engine.begin() as two:
        assert advance(two, third) == Advanced(ExecutionState.WAITING)


def sweep(database: Database) -> None:
    tasks.run_sql(database, "update execution_due set created_at = created_at - interval '1 s'")
    reaper = Reaper(Settings(database_url=database.url))
    reaper.run_once()
    reaper.close()


class Race:
    """Rounds of one execution whose two last members of the first group end at the same moment."""

    def __init__(self, database: Database, one: HotSession, two: HotSession, *advancers: Advancer) -> None:
        self._database, self._sessions, self._advancers = database, (one, two), advancers
        self._random = Random(1815)

    def round(self) -> None:
        execution_id = run_now(self._database)
        first, second = queued(self._database, execution_id)
        leases = [
            tasks.claimed(session, task_id).lease
            for session, task_id in zip(self._sessions, (first, second), strict=True)
        ]
        (last,) = (
            row[0]
            for row in made.rows(
                self._database, "select id from tasks where execution_id = :id and state = 'waiting'", id=execution_id
            )
        )
        racer = self._random.choice([None, None, self._cancel_execution, self._cancel_last])
        actions = [self._ending(at, lease, execution_id) for at, lease in enumerate(leases)]
        if racer is not None:
            actions.append(lambda: racer(execution_id, last))
        assert all(together(*actions))
        # Whoever was to advance may have died: the row in execution_due is what is left of it.
        self._advancers[0].pending(older=0.0)
        self._check(execution_id, last, cancelled=racer is not None)

    def _ending(self, at: int, lease: Lease, execution_id: UUID) -> Callable[[], bool]:
        dies = self._random.random() < 0.3

        def end() -> bool:
            accepted = tasks.ends(self._sessions[at], lease, tasks.SUCCEEDED)
            if not dies:
                self._advancers[at].advance([execution_id])
            return accepted

        return end

    def _cancel_execution(self, execution_id: UUID, _: UUID) -> bool:
        with self._database.engine.begin() as connection:
            schedules.cancel_execution(connection, execution_id, initiator=tasks.ADA)
        return True

    def _cancel_last(self, _: UUID, last: UUID) -> bool:
        with self._database.engine.begin() as connection:
            client.cancel(connection, last, initiator=tasks.ADA)
        return True

    def _check(self, execution_id: UUID, last: UUID, *, cancelled: bool) -> None:
        counted = "select count(*) from task_events where task_id = :id and verb = 'promote'"
        promoted = tasks.value(self._database, counted, id=last)
        if cancelled:
            assert promoted <= 1
            assert tasks.state(self._database, last) == "cancelled"
        else:
            assert promoted == 1
            lease = tasks.claimed(self._sessions[0], last).lease
            assert tasks.ends(self._sessions[0], lease, tasks.SUCCEEDED)
            self._advancers[0].advance([execution_id])
        state = tasks.value(self._database, "select state from executions where id = :id", id=execution_id)
        assert state in (("cancelled", "failed") if cancelled else ("succeeded",))
        assert tasks.value(self._database, "select count(*) from execution_due") == 0


def test_the_next_group_starts_once_however_its_last_two_members_end(database: Database) -> None:
    made.add(database, "nightly", ["step.ok", "step.ok"], "step.ok", overlap="allow", manual=True)
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    before = tasks.value(database, deadlocks)
    specs = made.kinds().specs
    with (
        tasks.worker(database, pid=1, kinds=specs) as one,
        tasks.worker(database, pid=2, kinds=specs) as two,
        made.advancer(database) as first,
        made.advancer(database) as second,
    ):
        race = Race(database, one, two, first, second)
        for _ in range(tasks.scale(500, 25)):
            race.round()
    assert tasks.value(database, deadlocks) == before
    assert tasks.value(database, "select count(*) from executions where finished_at is null") == 0


def test_nothing_is_left_for_the_net_after_all_that(database: Database) -> None:
    """The net finds what stands still, and only that: after a whole run it finds nothing."""
    made.add(database, "nightly", ["step.ok", "step.fails"], "step.ok", on_failure="continue")
    run_now(database)
    made.work(database)
    before = snapshot(database)
    net = SafetyNet(Settings(database_url=database.url))
    net.run_once()
    net.close()
    assert changed(before, snapshot(database)) == []
