"""The scheduler stepped by `run_once`: what it writes for a due schedule, and when the next is due."""

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from tenure import schedules
from tenure.model.recurrence import rules
from tenure.registry import Registry
from tenure.services.firing import TASKS
from tenure.store import due_schedules
from tenure.store.connect import engine_for
from tenure_beat.scheduler import SESSION
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.percentiles import percentile
from tests.support.snapshots import changed, snapshot
from tests.support.until import until


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


def due_at(database: Database) -> Any:
    return tasks.value(database, "select next_run_at from schedules")


def test_a_due_schedule_starts_its_first_group_and_lets_the_rest_wait(database: Database) -> None:
    made.add(database, "nightly", ["step.ok", "step.ok"], "step.fails")
    made.let_come(database)
    due = due_at(database)
    assert made.fire(database) == 1
    assert made.executions(database) == [("running", None)]
    assert made.members(database) == [(0, "queued"), (0, "queued"), (1, "waiting")]
    assert tasks.value(database, "select due_at from executions") == due
    assert due_at(database) == due + timedelta(seconds=60)
    assert tasks.value(database, "select last_due_at from schedules") == due
    counts = """select (select count(*) from task_hints), (select count(*) from activities where status = 'in_progress'),
        (select count(*) from task_params), (select count(*) from task_events where verb = 'submit')"""
    assert made.rows(database, counts) == [(2, 3, 3, 3)]


def test_a_task_of_a_schedule_says_who_asked_and_for_what(database: Database) -> None:
    made.add(database, "nightly", [made.step(params={"a": 1}, priority=9, scope="erp", exclusive=True, queue="bulk")])
    made.let_come(database)
    made.fire(database)
    (row,) = made.rows(
        database,
        """select k.kind, k.queue, k.priority, k.scope, k.exclusive, k.initiator_type, k.initiator_name, a.context,
            p.params, h.queue from tasks k join activities a on a.id = k.activity_id join task_params p on p.task_id = k.id
            join task_hints h on h.task_id = k.id""",
    )
    assert row == (
        "step.ok",
        "bulk",
        9,
        "erp",
        True,
        "schedule",
        "nightly",
        "schedule nightly, group 1",
        {"a": 1},
        "bulk",
    )


def test_a_deadline_counts_from_when_the_group_has_its_turn(database: Database) -> None:
    made.add(database, "nightly", [made.step(deadline=100.0)], [made.step(deadline=200.0)])
    made.let_come(database)
    made.fire(database)
    left = "select extract(epoch from deadline - clock_timestamp())::int from tasks order by step_index"
    (first, second) = (row[0] for row in made.rows(database, left))
    assert 90 < first <= 100
    assert second is None
    tasks.run_sql(database, "update tasks set created_at = created_at - interval '1 hour'")
    made.work(database)
    assert 190 < int(made.rows(database, left)[1][0]) <= 200


def test_what_is_not_due_paused_disabled_or_by_hand_does_not_fire(database: Database) -> None:
    made.add(database, "later")
    made.add(database, "off", enabled=False)
    made.add(database, "hand", manual=True)
    made.add(database, "paused")
    made.let_come(database, "paused")
    with database.engine.begin() as connection:
        schedules.pause(connection, "paused", initiator=tasks.ADA)
    before = snapshot(database)
    assert made.fire(database) == 0
    assert changed(before, snapshot(database)) == []


def test_a_round_answers_how_long_nothing_is_due(database: Database) -> None:
    with made.scheduler(database) as service:
        assert service.run_once() == 0.5
        made.add(database, every=0.2)
        assert 0.0 < service.run_once() <= 0.2


def test_rows_that_another_replica_holds_are_passed_over_and_looked_at_soon(database: Database) -> None:
    made.add(database, "held")
    made.add(database, "free")
    for name in ("held", "free"):
        made.let_come(database, name)
    with made.scheduler(database) as service, database.engine.begin() as connection:
        connection.execute(text("select 1 from schedules where name = 'held' for update"))
        assert service.run_once() == 0.0
        assert service.run_once() == 0.05
        assert made.rows(database, "select schedule_name from executions") == [("free",)]


def test_a_replica_frozen_in_its_transaction_holds_its_rows_for_half_a_second(database: Database) -> None:
    made.add(database)
    made.let_come(database)
    engine = engine_for(database.url, application="frozen", options=SESSION)
    with engine.connect() as frozen, made.scheduler(database) as service:
        assert due_schedules.claim_due(frozen, 10) is not None
        began = time.monotonic()
        until(lambda: service.run_once() == 0.0, 3)
        assert 0.3 < time.monotonic() - began < 1.5
        with pytest.raises(DBAPIError):  # it wakes, and has done nothing
            frozen.execute(text("update schedules set next_run_at = null"))
    assert made.executions(database) == [("running", None)]


def test_a_change_is_seen_by_the_next_firing_of_the_same_beat(database: Database) -> None:
    made.add(database, "nightly", "step.ok", overlap="allow")
    with made.scheduler(database) as service:
        made.let_come(database)
        service.run_once()
        with database.engine.begin() as connection:
            wanted = made.spec("nightly", "step.fails", overlap="allow")
            schedules.change(connection, wanted, revision=1, initiator=tasks.ADA)
        made.let_come(database)
        service.run_once()
    assert [row[0] for row in made.rows(database, "select kind from tasks order by id")] == ["step.ok", "step.fails"]


def test_an_occurrence_that_has_an_execution_starts_no_other(database: Database) -> None:
    """The key is what stands behind the lock: as if the row had been claimed twice."""
    made.add(database, overlap="allow")
    made.let_come(database)
    due = due_at(database)
    assert made.fire(database) == 1
    tasks.run_sql(database, "update schedules set next_run_at = :due", due=due)
    assert made.fire(database) == 1
    assert made.members(database) == [(0, "queued")]
    assert due_at(database) == due + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [("step.number", {"n": "secret-value"}, "step.number: n: "), ("step.gone", {}, "unknown kind 'step.gone'")],
)
def test_a_step_that_cannot_be_submitted_is_a_failed_execution_with_its_reason(
    database: Database, kind: str, params: dict[str, Any], said: str
) -> None:
    made.add(database, "nightly", "step.ok", [made.step("step.number", params={"n": 1})])
    change = "update schedule_steps set kind = :kind, params = cast(:params as jsonb) where position = 1"
    tasks.run_sql(database, change, kind=kind, params=json.dumps(params))
    made.let_come(database)
    made.fire(database)
    ((state, reason),) = made.executions(database)
    assert state == "failed"
    assert said in str(reason)
    assert "secret-value" not in str(reason)
    assert made.members(database) == []
    activity = "select status, target_type, target_name, message from activities"
    assert made.rows(database, activity) == [("failed", "schedule", "nightly", reason)]
    assert made.fire(database) == 1, "the next occurrence is ahead"


def test_a_bug_in_a_kinds_own_check_or_in_a_recurrence_costs_its_schedule_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("odd", "fine", "broken"):
        made.add(database, name, **({"cron": "* * * * *", "zone": "UTC"} if name == "broken" else {}))
        made.let_come(database, name)
    odd = (
        "update schedule_steps set kind = 'step.odd' where schedule_id = (select id from schedules where name = 'odd')"
    )
    tasks.run_sql(database, odd)

    def wrong(*_: object, **__: object) -> None:
        raise IndexError

    monkeypatch.setattr(rules, "_elapsed", wrong)
    made.fire(database)
    found = {row[0]: row[1:] for row in made.rows(database, "select schedule_name, state, reason from executions")}
    assert found["fine"] == ("running", None)
    assert found["odd"][0] == found["broken"][0] == "failed"
    assert "KeyError in the kind's own check" in found["odd"][1]
    assert "IndexError" in found["broken"][1]


def test_an_internal_kind_is_refused_also_when_it_became_so(database: Database) -> None:
    made.add(database)
    tasks.run_sql(database, "update schedule_steps set kind = 'step.inner'")
    made.let_come(database)
    made.fire(database)
    assert made.executions(database) == [("failed", "kind step.inner is internal: use step.outer()")]


def test_a_recurrence_that_is_not_understood_here_is_said_and_tried_again(database: Database) -> None:
    made.add(database, cron="* * * * *", zone="UTC")
    tasks.run_sql(database, "update schedules set zone = 'Mars/Olympus'")
    made.let_come(database)
    made.fire(database)
    ((state, reason),) = made.executions(database)
    assert state == "failed"
    assert "Mars/Olympus" in str(reason)
    left = tasks.value(database, "select extract(epoch from next_run_at - clock_timestamp())::float8 from schedules")
    assert 290 < left <= 300


def test_one_schedule_that_the_database_refuses_holds_up_no_other(database: Database) -> None:
    for name in ("first", "poison", "last"):
        made.add(database, name)
        made.let_come(database, name)
    refuse = """create function refuse_poison() returns trigger language plpgsql as $$ begin
        if new.submitter = 'schedule poison' then raise check_violation; end if; return new; end $$;
        create trigger refuse_poison before insert on tasks for each row execute function refuse_poison()"""
    with database.engine.begin() as connection:
        connection.execute(text(refuse))
    try:
        made.fire(database)
    finally:
        with database.engine.begin() as connection:
            connection.execute(text("drop function refuse_poison cascade"))
    states = dict(made.rows(database, "select schedule_name, state from executions"))
    assert states == {"first": "running", "last": "running", "poison": "failed"}
    assert tasks.value(database, "select count(*) from schedules where next_run_at <= clock_timestamp()") == 0


def test_only_what_the_database_refuses_is_said_to_have_failed(database: Database) -> None:
    """Another replica has the refused schedule the moment it is let go: what is claimed in its place fires as ever."""
    for name, ago in (("poison", 2), ("good", 1)):
        made.add(database, name)
        made.let_come(database, name, ago=timedelta(seconds=ago))
    tasks.run_sql(database, "alter table tasks add constraint refused check (submitter <> 'schedule poison')")
    try:
        with made.scheduler(database) as service, database.engine.connect() as replica:
            times = iter((False, True))  # after the batch, after poison by itself

            def let_go(*_: object) -> None:
                if next(times, False):
                    replica.execute(text("select 1 from schedules where name = 'poison' for update nowait"))

            event.listen(service._sessions._transactions, "checkin", let_go)
            service.run_once()
    finally:
        tasks.run_sql(database, "alter table tasks drop constraint refused")
    assert dict(made.rows(database, "select schedule_name, state from executions")) == {"good": "running"}


def test_what_takes_long_to_work_out_is_fired_all_the_same(database: Database) -> None:
    """A year of minutes to be counted for each: together far more than a session of beat may idle in a transaction."""
    for number in range(12):
        made.add(database, f"{number}", cron="* * * * *", zone="America/Santiago")
        made.let_come(database, f"{number}", ago=timedelta(days=400))
    with made.scheduler(database, options=SESSION) as service:
        for _ in range(12):
            if service.run_once() > 0.0:
                break
    fired = "select count(*) from executions where state = 'running'"
    assert tasks.value(database, fired) == 12


def test_what_is_due_beyond_one_transaction_is_fired_by_the_next(database: Database) -> None:
    """However much is due, a transaction holds its rows briefly, and nothing is left out or twice."""
    for name in ("one", "two", "three"):
        made.add(database, name, ["step.ok"] * 90, "step.fails", overlap="allow", misfire="all", at_most=4)
        made.let_come(database, name, ago=timedelta(seconds=270))  # four late ones and one in time, of 91 tasks each
    counts = []
    with made.scheduler(database) as service:
        while service.run_once() == 0.0:
            counts.append(tasks.value(database, "select count(*) from tasks"))
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert sum(steps) == 15 * 91
    assert max(steps) < TASKS + 91, "an execution is written whole"
    assert len(steps) >= 3
    due = made.rows(database, "select schedule_name, count(distinct due_at), count(*) from executions group by 1")
    assert sorted(due) == [("one", 5, 5), ("three", 5, 5), ("two", 5, 5)]


def test_several_due_at_once_are_claimed_in_one_transaction_as_far_as_there_is_room(database: Database) -> None:
    for number in range(12):
        made.add(database, f"{number}", ["step.ok"] * 100, overlap="allow")
        made.let_come(database, f"{number}")
    with made.scheduler(database) as service:
        assert service.run_once() == 0.0
        assert len(made.executions(database)) == 5
        while service.run_once() == 0.0:
            pass
    assert len(made.executions(database)) == 12


def test_the_active_limit_of_a_kind_holds_for_schedules_too(database: Database) -> None:
    made.add(database, "nightly", "step.limited", overlap="allow")
    made.let_come(database)
    made.fire(database)
    made.let_come(database)
    made.fire(database)
    (first, second) = made.executions(database)
    assert first == ("running", None)
    assert second[0] == "failed"
    assert "step.limited tasks are active already" in str(second[1])


def test_a_beat_that_knows_no_kind_starts_nothing_in_silence(database: Database) -> None:
    made.add(database)
    made.let_come(database)
    with made.scheduler(database, Registry([])) as service:
        service.run_once()
    ((state, reason),) = made.executions(database)
    assert (state, "known here are none" in str(reason)) == ("failed", True)


def test_whoever_counts_is_told_of_each_occurrence_its_state_and_how_late_it_is(database: Database) -> None:
    told: list[tuple[str, float]] = []
    made.add(database)
    for _ in range(2):
        made.let_come(database, ago=timedelta(seconds=3))
        with made.scheduler(database, started=lambda state, late: told.append((state, late))) as service:
            service.run_once()
    assert [state for state, _ in told] == ["running", "skipped"]
    assert all(3.0 <= late < 4.0 for _, late in told)


class TestOverlap:
    """What becomes of an occurrence while the one before it has not ended."""

    def fire_beside(self, database: Database, overlap: str, times: int = 1) -> list[tuple[str, str | None]]:
        made.add(database, overlap=overlap)
        for _ in range(times + 1):
            made.let_come(database)
            made.fire(database)
        return made.executions(database)

    def test_skip_leaves_it_out_and_says_so(self, database: Database) -> None:
        states = self.fire_beside(database, "skip")
        assert states == [("running", None), ("skipped", "the execution before it had not ended")]
        assert made.members(database) == [(0, "queued")]

    def test_allow_starts_it_beside(self, database: Database) -> None:
        assert self.fire_beside(database, "allow") == [("running", None), ("running", None)]
        assert made.members(database) == [(0, "queued"), (0, "queued")]

    def test_queue_one_lets_one_wait_and_starts_it_when_the_other_has_ended(self, database: Database) -> None:
        states = [state for state, _ in self.fire_beside(database, "queue_one", times=2)]
        assert states == ["running", "waiting", "skipped"]
        assert made.members(database) == [(0, "queued"), (0, "waiting")]
        assert made.work(database) == 2
        assert [state for state, _ in made.executions(database)] == ["succeeded", "succeeded", "skipped"]

    @pytest.mark.parametrize("overlap", ["skip", "queue_one", "allow"])
    def test_one_that_has_ended_is_in_nobodys_way(self, database: Database, overlap: str) -> None:
        made.add(database, overlap=overlap)
        for _ in range(2):
            made.let_come(database)
            made.fire(database)
            made.work(database)
        assert made.executions(database) == [("succeeded", None), ("succeeded", None)]


def test_an_execution_is_late_by_milliseconds_only(database: Database) -> None:
    """A round wakes when the next one is due, not at its pace."""
    made.add(database, every=0.15, overlap="allow")
    with made.scheduler(database) as service:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            time.sleep(min(service.run_once(), 0.05))
    late = made.rows(database, "select extract(epoch from created_at - due_at)::float8 from executions")
    assert len(late) >= 8
    assert percentile([row[0] for row in late], 0.5) < 0.1
