"""Executions by real executors: group after group, what a failure does, and cancels."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure import client, schedules
from tenure.model.errors import NoSuchExecution, ScheduleOverlaps, TooLate, UsageError
from tenure.model.executions import ExecutionState
from tenure.model.records import Initiator
from tenure.services.net import SafetyNet
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store import executions, standing
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


def run_now(database: Database, *groups: Any, **options: Any) -> UUID:
    made.add(database, "nightly", *groups, **options)
    return again(database)


def again(database: Database) -> UUID:
    with database.engine.begin() as connection:
        return schedules.run_now(connection, "nightly", initiator=tasks.ADA)


def cancel(database: Database, execution_id: UUID) -> ExecutionState:
    with database.engine.begin() as connection:
        return schedules.cancel_execution(connection, execution_id, initiator=tasks.ADA, reason="enough")


def show(database: Database) -> dict[str, Any]:
    with database.engine.connect() as connection:
        return schedules.show(connection, "nightly")


def sweep(database: Database) -> None:
    """One round of a reaper, half a second after the last commit."""
    tasks.run_sql(database, "update execution_due set created_at = created_at - interval '1 s'")
    reaper = Reaper(Settings(database_url=database.url))
    reaper.run_once()
    reaper.close()


def test_groups_run_one_after_another_and_the_execution_ends_with_the_last(database: Database) -> None:
    run_now(database, "step.ok", ["step.ok", "step.ok"], "step.ok")
    assert made.work(database) == 4
    assert made.executions(database) == [("succeeded", None)]
    order = "select k.step_index from tasks k order by k.started_at"
    assert [row[0] for row in made.rows(database, order)] == [0, 1, 1, 2]
    assert tasks.value(database, "select count(*) from execution_due") == 0
    assert (
        tasks.value(
            database, "select count(*) from task_hints h join tasks k on k.id = h.task_id and k.finished_at is null"
        )
        == 0
    )


def test_a_promoted_task_has_its_event_its_hint_and_its_place_from_then(database: Database) -> None:
    run_now(database, "step.ok", "step.ok")
    tasks.run_sql(database, "update tasks set available_at = available_at - interval '1 hour' where state = 'waiting'")
    made.work(database)
    verbs = """select e.verb from task_events e join tasks k on k.id = e.task_id where k.step_index = 1 order by e.created_at"""
    assert [row[0] for row in made.rows(database, verbs)] == ["submit", "promote", "claim", "succeed"]
    waited = "select clock_timestamp() - available_at < interval '1 minute' from tasks where step_index = 1"
    assert tasks.value(database, waited)


@pytest.mark.parametrize(
    ("on_failure", "step", "state", "members"),
    [
        ("stop", "inherit", "failed", ["failed", "cancelled", "cancelled"]),
        ("continue", "inherit", "partially_succeeded", ["failed", "succeeded", "succeeded"]),
        ("continue", "stop", "failed", ["failed", "cancelled", "cancelled"]),
        ("stop", "continue", "partially_succeeded", ["failed", "succeeded", "succeeded"]),
    ],
)
def test_a_failure_stops_or_goes_on_as_its_step_or_else_its_schedule_says(
    database: Database, on_failure: str, step: str, state: str, members: list[str]
) -> None:
    run_now(database, [made.step("step.fails", on_failure=step)], "step.ok", "step.ok", on_failure=on_failure)
    made.work(database)
    assert made.executions(database) == [(state, "group 1: step.fails failed")]
    assert [found for _, found in made.members(database)] == members
    assert tasks.value(database, "select count(*) from activities where status = 'in_progress'") == 0
    assert tasks.value(database, "select count(*) from task_params") == 0
    assert tasks.value(database, "select count(*) from execution_due") == 0


def test_one_stop_step_stops_a_parallel_group_when_all_of_it_has_ended(database: Database) -> None:
    group = [made.step("step.fails", on_failure="continue"), made.step("step.ok", on_failure="stop"), made.step()]
    run_now(database, group, "step.ok")
    assert made.work(database) == 3
    assert made.executions(database)[0][0] == "failed"
    why = tasks.value(database, "select error_message from tasks where state = 'cancelled'")
    assert why == "its execution ended before: group 1: step.fails failed"


def test_the_plan_that_was_started_rules_whatever_becomes_of_the_schedule(database: Database) -> None:
    run_now(database, "step.fails", "step.ok", on_failure="continue")
    with database.engine.begin() as connection:
        wanted = made.spec("nightly", "step.ok", "step.fails", "step.fails", on_failure="stop")
        schedules.change(connection, wanted, revision=1, initiator=tasks.ADA)
    made.work(database)
    assert made.executions(database) == [("partially_succeeded", "group 1: step.fails failed")]
    assert [task["kind"] for task in show(database)["occurrences"][0]["tasks"]] == ["step.fails", "step.ok"]
    with database.engine.begin() as connection:
        schedules.remove(connection, "nightly")


def test_a_run_by_hand_is_the_callers_and_commits_with_it(database: Database) -> None:
    made.add(database)
    with database.engine.connect() as connection:
        schedules.run_now(connection, "nightly", initiator=tasks.ADA)
        connection.rollback()
    assert made.executions(database) == []
    again(database)
    row = made.rows(database, "select trigger, initiator_type, initiator_name from executions")
    assert row == [("manual", "user", "ada")]
    assert made.rows(database, "select initiator_name from activities") == [("ada",)]


@pytest.mark.parametrize("initiator", [Initiator("system", "", "nightly sync"), Initiator("anonymous", "", "somebody")])
def test_whoever_may_submit_a_task_may_run_a_schedule(database: Database, initiator: Initiator) -> None:
    made.add(database)
    with database.engine.begin() as connection:
        schedules.run_now(connection, "nightly", initiator=initiator)
    assert made.work(database) == 1
    assert made.rows(database, "select initiator_name from executions") == [(initiator.name,)]


def test_a_disabled_and_paused_schedule_still_runs_by_hand(database: Database) -> None:
    made.add(database, enabled=False)
    with database.engine.begin() as connection:
        schedules.pause(connection, "nightly", initiator=tasks.ADA)
    again(database)
    made.work(database)
    assert made.executions(database) == [("succeeded", None)]


class TestOverlapByHand:
    def test_skip_refuses_and_names_the_execution_in_the_way(self, database: Database) -> None:
        first = run_now(database)
        before = snapshot(database)
        with pytest.raises(ScheduleOverlaps, match=str(first)):
            again(database)
        assert changed(before, snapshot(database)) == []

    def test_queue_one_lets_one_wait_and_refuses_the_next(self, database: Database) -> None:
        run_now(database, overlap="queue_one")
        second = again(database)
        with pytest.raises(ScheduleOverlaps, match=str(second)):
            again(database)
        assert made.work(database) == 2
        assert [state for state, _ in made.executions(database)] == ["succeeded", "succeeded"]

    def test_a_due_occurrence_and_a_run_by_hand_see_each_other(self, database: Database) -> None:
        run_now(database, overlap="skip")
        made.let_come(database)
        made.fire(database)
        assert sorted(state for state, _ in made.executions(database)) == ["running", "skipped"]


class TestCancel:
    def test_what_waits_ends_at_once_and_so_does_the_execution(self, database: Database) -> None:
        execution_id = run_now(database, ["step.ok", "step.ok"], "step.ok")
        assert cancel(database, execution_id) is ExecutionState.CANCELLING
        assert [state for _, state in made.members(database)] == ["cancelled"] * 3
        sweep(database)
        assert made.executions(database) == [("cancelled", "it was cancelled")]
        assert cancel(database, execution_id) is ExecutionState.CANCELLED, "twice is harmless"
        assert tasks.value(database, "select count(*) from activities where status <> 'cancelled'") == 0

    def test_a_running_task_is_asked_and_the_execution_ends_with_it(self, database: Database) -> None:
        execution_id = run_now(database, ["step.ok", "step.ok"], "step.ok")
        task_id = tasks.value(database, "select min(id::text)::uuid from tasks where state = 'queued'")
        with tasks.worker(database, kinds=made.kinds().specs) as session:
            lease = tasks.claimed(session, task_id).lease
            cancel(database, execution_id)
            sweep(database)
            assert made.executions(database) == [("cancelling", None)]
            assert sorted(state for _, state in made.members(database)) == ["cancelled", "cancelled", "running"]
            assert tasks.ends(session, lease, tasks.CANCELLED)
        sweep(database)
        assert made.executions(database) == [("cancelled", "it was cancelled")]

    def test_a_success_committed_before_the_stop_is_seen_wins(self, database: Database) -> None:
        execution_id = run_now(database, "step.ok")
        task_id = tasks.value(database, "select id from tasks")
        with tasks.worker(database, kinds=made.kinds().specs) as session:
            lease = tasks.claimed(session, task_id).lease
            cancel(database, execution_id)
            assert tasks.ends(session, lease, tasks.SUCCEEDED)
        sweep(database)
        assert made.executions(database) == [("succeeded", None)]

    def test_one_that_waits_for_another_is_cancelled_without_ever_running(self, database: Database) -> None:
        run_now(database, overlap="queue_one")
        second = again(database)
        cancel(database, second)
        sweep(database)
        assert sorted(state for state, _ in made.executions(database)) == ["cancelled", "running"]
        assert made.work(database) == 1

    def test_an_ended_or_unknown_one_is_refused(self, database: Database) -> None:
        execution_id = run_now(database)
        made.work(database)
        with pytest.raises(TooLate, match="succeeded"):
            cancel(database, execution_id)
        with pytest.raises(NoSuchExecution):
            cancel(database, UUID(int=7))

    def test_a_cancelled_member_stops_what_follows(self, database: Database) -> None:
        run_now(database, "step.ok", "step.ok")
        with database.engine.begin() as connection:
            task_id = connection.execute(text("select id from tasks where state = 'queued'")).scalar_one()
            client.cancel(connection, task_id, initiator=tasks.ADA)
        sweep(database)
        assert made.executions(database) == [("failed", "group 1: step.ok was cancelled")]


@pytest.mark.parametrize("asked", [False, True], ids=["lost", "lost with a cancel asked"])
def test_a_step_whose_worker_died_is_recovered_and_the_execution_settles(database: Database, asked: bool) -> None:
    execution_id = run_now(database, "step.ok", "step.ok")
    task_id = tasks.value(database, "select id from tasks where state = 'queued'")
    with tasks.worker(database, kinds=made.kinds().specs) as session:
        tasks.claimed(session, task_id)
    if asked:
        cancel(database, execution_id)
    tasks.expire_lease(database, task_id)
    sweep(database)
    assert made.executions(database) == [
        ("cancelled", "it was cancelled") if asked else ("failed", "group 1: step.ok failed")
    ]
    assert [state for _, state in made.members(database)] == ["cancelled" if asked else "failed", "cancelled"]


def test_the_net_moves_on_what_nobody_else_will(database: Database) -> None:
    """As if every process had died between a commit and what follows it, and the row that tells of it were lost too."""
    run_now(database, "step.ok", "step.ok")
    task_id = tasks.value(database, "select id from tasks where state = 'queued'")
    with tasks.worker(database, kinds=made.kinds().specs) as session:
        assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
    tasks.run_sql(database, "delete from execution_due")
    net = SafetyNet(Settings(database_url=database.url))
    net.run_once()
    assert made.members(database) == [(0, "succeeded"), (1, "waiting")], "what has just started is left to others"
    tasks.run_sql(database, "update executions set created_at = created_at - interval '1 minute'")
    net.run_once()
    net.close()
    assert made.members(database) == [(0, "succeeded"), (1, "queued")]
    made.work(database)
    assert made.executions(database) == [("succeeded", None)]


def test_the_net_leaves_alone_what_is_under_way(database: Database) -> None:
    run_now(database, ["step.ok", "step.ok"], "step.ok", overlap="queue_one")
    again(database)
    tasks.run_sql(database, "delete from execution_due")
    tasks.run_sql(database, "update executions set created_at = created_at - interval '1 minute'")
    before = snapshot(database)
    net = SafetyNet(Settings(database_url=database.url))
    net.run_once()
    net.close()
    assert changed(before, snapshot(database)) == []


def test_of_several_that_wait_the_one_that_was_due_first_is_next(database: Database) -> None:
    """Whatever the clocks of the beats said that made them."""
    made.add(database, manual=True, overlap="queue_one")
    first, late = again(database), again(database)
    copy = """insert into executions select (jsonb_populate_record(x, jsonb_build_object('id', uuidv7(),
        'due_at', x.due_at - interval '2 hours'))).* from executions x where x.id = :late returning id"""
    with database.engine.begin() as connection:
        early = connection.execute(text(copy), {"late": late}).scalar_one()
        held = executions.lock(connection, first)
        assert held is not None
        assert standing.next_waiting(connection, held.schedule_id) == early


class TestBackfill:
    def fill(self, database: Database, minutes: int, *, ends: int = 0) -> list[UUID]:
        with database.engine.begin() as connection:
            now = schedules.store.now(connection).replace(second=0, microsecond=0)
            start, end = (now - timedelta(minutes=m) for m in (minutes, ends))
            return schedules.backfill(connection, "nightly", start, end, initiator=tasks.ADA)

    def test_past_occurrences_run_one_after_another(self, database: Database) -> None:
        made.add(database, cron="* * * * *", zone="UTC")
        assert len(self.fill(database, 5)) == 5
        assert [state for state, _ in made.executions(database)] == ["running"] + ["waiting"] * 4
        assert made.work(database) == 5
        assert [state for state, _ in made.executions(database)] == ["succeeded"] * 5
        started = made.rows(database, "select due_at from executions order by started_at")
        assert started == sorted(started)

    def test_what_has_run_does_not_run_again(self, database: Database) -> None:
        made.add(database, cron="* * * * *", zone="UTC", overlap="allow")
        assert len(self.fill(database, 5, ends=2)) == 3
        assert [state for state, _ in made.executions(database)] == ["running"] * 3
        assert len(self.fill(database, 6)) == 3
        assert self.fill(database, 6) == []

    @pytest.mark.parametrize(
        ("minutes", "ends", "said"), [(1, -5, "ahead"), (1, 2, "before end"), (2000, 0, "more than 1000")]
    )
    def test_a_range_that_cannot_be_is_refused(self, database: Database, minutes: int, ends: int, said: str) -> None:
        made.add(database, cron="* * * * *", zone="UTC")
        with pytest.raises(UsageError, match=said):
            self.fill(database, minutes, ends=ends)

    def test_a_schedule_by_hand_has_none(self, database: Database) -> None:
        made.add(database, manual=True)
        with pytest.raises(UsageError, match="by hand"):
            self.fill(database, 5)
