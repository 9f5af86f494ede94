"""Schedules as data: added, changed under a revision, paused, removed; and what cannot be kept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import schedules
from tenure.model.errors import (
    InvalidParams,
    KindIsInternal,
    NoSuchSchedule,
    RevisionConflict,
    ScheduleExists,
    ScheduleIsBuiltIn,
    TenureError,
    UnknownKind,
    UsageError,
)
from tenure.store.schedules import Schedule
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


def get(database: Database, name: str = "nightly") -> Schedule:
    with database.engine.connect() as connection:
        return schedules.get(connection, name)


def change(database: Database, *groups: Any, revision: int = 1, **options: Any) -> int:
    with database.engine.begin() as connection:
        wanted = made.spec("nightly", *groups, **options)
        return schedules.change(connection, wanted, revision=revision, initiator=tasks.ADA)


def test_a_schedule_reads_back_as_it_was_added(database: Database) -> None:
    whole = made.step(
        params={"a": [1, "x", None]}, on_failure="continue", queue="bulk", priority=-3, scope="erp", exclusive=True,
        deadline=1.5,
    )  # fmt: skip
    wanted = made.spec(
        "nightly",
        [whole, "step.fails"], "step.ok", cron="30 2 * * *", zone="Europe/Oslo", overlap="queue_one", misfire="all",
        at_most=7, on_failure="continue",
    )  # fmt: skip
    with database.engine.begin() as connection:
        schedules.add(connection, wanted, initiator=tasks.ADA, origin="file")
    found = get(database)
    assert (found.spec, found.revision, found.origin, found.updated_by) == (wanted, 1, "file", "user:ada")
    assert found.next_run_at is not None
    assert found.next_run_at.astimezone(UTC).minute == 30


def test_an_interval_is_first_due_one_interval_from_now(database: Database) -> None:
    made.add(database, every=3600.0)
    with database.engine.connect() as connection:
        now = schedules.store.now(connection)
    left = (get(database).next_run_at or now) - now
    assert timedelta(seconds=3590) < left <= timedelta(seconds=3600)


@pytest.mark.parametrize("options", [{"manual": True}, {"enabled": False}], ids=["by hand", "disabled"])
def test_what_does_not_fire_by_itself_has_no_next_time(database: Database, options: dict[str, Any]) -> None:
    made.add(database, **options)
    assert get(database).next_run_at is None


def test_a_name_is_taken_once(database: Database) -> None:
    made.add(database)
    before = snapshot(database)
    with pytest.raises(ScheduleExists, match="nightly"):
        made.add(database, "nightly", "step.fails")
    assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize(
    ("groups", "options", "error", "said"),
    [
        (("step.unknown",), {}, UnknownKind, "step 1: unknown kind 'step.unknown'"),
        (("step.ok", "step.inner"), {}, KindIsInternal, "step 2: .*use step.outer"),
        ((["step.ok", made.step("step.number", params={"n": "x"})],), {}, InvalidParams, "step 2: step.number: n"),
        ((made.step(scope=""),), {}, UsageError, "scope is 0 bytes"),
        ((made.step(queue="two words"),), {}, UsageError, "without spaces"),
        ((made.step(deadline=1e12),), {}, UsageError, "deadline 1e\\+12 s"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name_and_nothing_is_written(
    database: Database, groups: Any, options: dict[str, Any], error: type[TenureError], said: str
) -> None:
    before = snapshot(database)
    groups = tuple([group] if not isinstance(group, str | list) else group for group in groups)
    with pytest.raises(error, match=said):
        made.add(database, "nightly", *groups, **options)
    assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize("name", ["", "two\nlines", "x" * 201, "nul\0"])
def test_a_name_is_one_line_of_up_to_200_bytes(database: Database, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        made.add(database, name)


def test_a_change_replaces_the_steps_and_raises_the_revision(database: Database) -> None:
    made.add(database, "nightly", "step.ok", "step.ok")
    assert change(database, ["step.fails", "step.ok"], overlap="allow") == 2
    found = get(database)
    assert (found.revision, found.spec.overlap) == (2, "allow")
    assert [[step.kind for step in group] for group in found.spec.steps] == [["step.fails", "step.ok"]]


def test_a_change_of_what_was_changed_meanwhile_is_refused(database: Database) -> None:
    made.add(database)
    change(database, overlap="allow")
    before = snapshot(database)
    with pytest.raises(RevisionConflict, match="at revision 2, not 1"):
        change(database, overlap="skip", revision=1)
    assert changed(before, snapshot(database)) == []


def test_a_change_that_keeps_the_recurrence_keeps_the_next_time(database: Database) -> None:
    made.add(database)
    made.let_come(database, ago=timedelta(seconds=30))
    due_at = get(database).next_run_at
    change(database, "step.fails")
    assert get(database).next_run_at == due_at
    change(database, every=7.0, revision=2)
    with database.engine.connect() as connection:
        assert (get(database).next_run_at or datetime.max) > schedules.store.now(connection)


def test_what_came_while_it_was_disabled_was_not_missed(database: Database) -> None:
    made.add(database)
    change(database, enabled=False)
    assert get(database).next_run_at is None
    tasks.run_sql(database, "update schedules set anchor = anchor - interval '90 s'")
    change(database, enabled=True, revision=2)
    with database.engine.connect() as connection:
        left = (get(database).next_run_at or datetime.max) - schedules.store.now(connection)
    # The interval goes on in its step: 90 s are one and a half of it.
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)


def test_pause_and_resume_say_whether_they_changed_anything(database: Database) -> None:
    made.add(database)
    with database.engine.begin() as connection:
        assert schedules.pause(connection, "nightly", initiator=tasks.ADA, reason="audit")
        assert not schedules.pause(connection, "nightly", initiator=tasks.ADA)
    assert (get(database).paused_by, get(database).paused_reason) == ("user:ada", "audit")
    with database.engine.begin() as connection:
        assert schedules.resume(connection, "nightly")
        assert not schedules.resume(connection, "nightly")
    assert get(database).paused_by is None


def test_what_came_while_it_was_paused_was_not_missed(database: Database) -> None:
    made.add(database)
    with database.engine.begin() as connection:
        schedules.pause(connection, "nightly", initiator=tasks.ADA)
    made.let_come(database, ago=timedelta(seconds=90))
    with database.engine.begin() as connection:
        schedules.resume(connection, "nightly")
        now = schedules.store.now(connection)
    left = (get(database).next_run_at or now) - now
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)


def test_a_built_in_schedule_is_neither_removed_nor_given_other_steps(database: Database) -> None:
    with database.engine.begin() as connection:
        built = made.spec("nightly", "platform.something")
        schedules.add(connection, built, initiator=tasks.ADA, built_in=True)
    before = snapshot(database)
    with database.engine.begin() as connection, pytest.raises(ScheduleIsBuiltIn, match="disable or pause"):
        schedules.remove(connection, "nightly")
    with pytest.raises(ScheduleIsBuiltIn, match="steps"):
        change(database, "step.ok")
    assert changed(before, snapshot(database)) == []
    assert change(database, "platform.something", every=7.0, enabled=False) == 2


def test_a_removed_schedule_leaves_what_ran(database: Database) -> None:
    made.add(database)
    made.let_come(database)
    made.fire(database)
    with database.engine.begin() as connection:
        schedules.remove(connection, "nightly")
    assert tasks.value(database, "select count(*) from schedules") == 0
    assert tasks.value(database, "select count(*) from schedule_steps") == 0
    assert made.executions(database) == [("running", None)]
    assert made.work(database) == 1
    assert made.executions(database) == [("succeeded", None)]


def test_an_unknown_name_is_said(database: Database) -> None:
    with database.engine.begin() as connection, pytest.raises(NoSuchSchedule, match="no schedule 'weekly'"):
        schedules.remove(connection, "weekly")
