"""Schedules made what a file, or a Celery app's beat_schedule, wants: in one transaction, and twice is once."""

import threading
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from sqlalchemy import text

from tenure import applying, schedules
from tenure.model.definitions import Plan, ScheduleSpec, Wanted, read, write
from tenure.model.errors import (
    InvalidParams,
    KindIsInternal,
    ScheduleInvalid,
    ScheduleIsBuiltIn,
    ScheduleKept,
    TenureError,
    UnknownKind,
)
from tenure_celery.takeover import taken
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.until import until


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


def apply(database: Database, *specs: ScheduleSpec, origin: str = "file", **options: Any) -> Plan:
    with database.engine.begin() as connection:
        return applying.apply(connection, Wanted(origin, specs), initiator=tasks.ADA, **options)


def plan(database: Database, *specs: ScheduleSpec, **options: Any) -> Plan:
    with database.engine.begin() as connection:
        return applying.plan(connection, Wanted("file", specs), **options)


def there(database: Database) -> dict[str, tuple[str, int]]:
    """Name: (origin, revision)."""
    with database.engine.connect() as connection:
        return {one.name: (one.origin, one.revision) for one in schedules.listing(connection)}


WAITING = """select count(*) from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and l.locktype = 'advisory' and not l.granted"""
NIGHTLY = made.spec("nightly", "step.ok", ["step.ok", "step.fails"], cron="30 2 * * *", zone="Europe/Oslo")
POLL = made.spec(
    "poll", [made.step(params={"a": [1, None, {"b": 0.5}]}, labels={"team": "x"}, deadline=60.5)], every=90
)


def test_what_is_wanted_is_added_and_applied_again_changes_nothing(database: Database) -> None:
    first = apply(database, NIGHTLY, POLL)
    assert [spec.name for spec in first.added] == ["nightly", "poll"]
    before = snapshot(database)
    second = apply(database, POLL, NIGHTLY)
    assert second.does_nothing
    assert second.unchanged == ("nightly", "poll")
    assert changed(before, snapshot(database)) == []
    assert there(database) == {"nightly": ("file", 1), "poll": ("file", 1)}


def test_what_differs_is_changed_and_the_rest_keeps_its_next_occurrence(database: Database) -> None:
    apply(database, NIGHTLY, POLL)
    with database.engine.connect() as connection:
        due = {one.name: one.next_run_at for one in schedules.listing(connection)}
    result = apply(database, NIGHTLY.model_copy(update={"overlap": "allow"}), POLL)
    assert [one.spec.name for one in result.changed] == ["nightly"]
    assert there(database) == {"nightly": ("file", 2), "poll": ("file", 1)}
    with database.engine.connect() as connection:
        assert {one.name: one.next_run_at for one in schedules.listing(connection)} == due
        assert schedules.get(connection, "nightly").spec.overlap == "allow"


def test_only_pruning_removes_and_only_what_the_same_origin_added(database: Database) -> None:
    made.add(database, "by-hand")
    apply(database, NIGHTLY, POLL)
    apply(database, made.spec("theirs"), origin="billing")
    assert apply(database, NIGHTLY).left == ("poll",)
    assert set(there(database)) == {"by-hand", "nightly", "poll", "theirs"}
    assert apply(database, NIGHTLY, prune=True).removed == ("poll",)
    assert set(there(database)) == {"by-hand", "nightly", "theirs"}
    assert apply(database, prune=True).removed == ("nightly",)
    assert set(there(database)) == {"by-hand", "theirs"}


def test_what_was_made_by_hand_is_changed_but_never_pruned(database: Database) -> None:
    made.add(database, "by-hand")
    assert len(apply(database, made.spec("by-hand", every=5)).changed) == 1
    apply(database, prune=True)
    assert there(database) == {"by-hand": ("", 2)}


def test_a_built_in_schedule_is_timed_but_keeps_its_steps_and_stays(database: Database) -> None:
    with database.engine.begin() as connection:
        schedules.add(connection, made.spec("own", "not.installed"), initiator=tasks.ADA, built_in=True, origin="file")
    assert len(apply(database, ScheduleSpec(name="own", every=5)).changed) == 1
    with pytest.raises(ScheduleIsBuiltIn):
        apply(database, made.spec("own", "step.ok"))
    assert apply(database, prune=True).removed == ()
    with database.engine.connect() as connection:
        own = schedules.get(connection, "own")
        assert (own.spec.every, own.spec.steps[0][0].kind) == (5.0, "not.installed")
        assert applying.exported(connection, []) == []
        assert applying.exported(connection, ["own"]) == [own.spec]


def test_what_another_origin_keeps_is_taken_only_when_asked(database: Database) -> None:
    apply(database, NIGHTLY, origin="billing")
    with pytest.raises(ScheduleKept, match="kept by 'billing'"):
        apply(database, NIGHTLY)
    apply(database, NIGHTLY, take=True)
    assert there(database) == {"nightly": ("file", 2)}


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (made.spec("z", "nope"), UnknownKind, "schedule z, step 1: unknown kind 'nope'"),
        (made.spec("z", "step.ok", "step.inner"), KindIsInternal, "schedule z, step 2: kind step.inner is internal"),
        (
            made.spec("z", [made.step("step.number", params={"n": "x"})]),
            InvalidParams,
            "schedule z, step 1: step.number: n",
        ),
        (made.spec("z\n"), ScheduleInvalid, "name 'z'"),
        (ScheduleSpec(name="z", every=5), ScheduleInvalid, "schedule z: give its steps"),
        (made.spec("old", "nope"), UnknownKind, "schedule old, step 1"),
    ],
)
def test_one_mistake_leaves_everything_as_it_was(
    database: Database, wrong: ScheduleSpec, error: type[TenureError], said: str
) -> None:
    apply(database, made.spec("old"), POLL)
    before = snapshot(database)
    for verb in (plan, apply):
        with pytest.raises(error) as refusal:
            verb(database, NIGHTLY, wrong, prune=True)
        assert said in str(refusal.value)
    assert changed(before, snapshot(database)) == []


def test_a_plan_writes_nothing_and_says_what_apply_does(database: Database) -> None:
    apply(database, NIGHTLY)
    before = snapshot(database)
    planned = plan(database, POLL, prune=True)
    assert changed(before, snapshot(database)) == []
    assert apply(database, POLL, prune=True) == planned


def test_a_schedule_whose_zone_is_known_no_more_is_mended_by_a_file(database: Database) -> None:
    apply(database, NIGHTLY)
    tasks.run_sql(database, "update schedules set zone = 'Europe/Gone'")
    change = apply(database, NIGHTLY).changed[0].changes[0]
    assert (change.field, change.before) == ("recurs", "30 2 * * * Europe/Gone")
    assert apply(database, NIGHTLY).does_nothing


def test_two_that_apply_at_once_wait_for_each_other(database: Database) -> None:
    done: list[Plan] = []
    with database.engine.begin() as connection:
        applying.apply(connection, Wanted("file", (NIGHTLY,)), initiator=tasks.ADA)
        other = threading.Thread(target=lambda: done.append(apply(database, NIGHTLY, POLL)))
        other.start()
        until(lambda: tasks.value(database, WAITING) == 1)
        assert done == []
    other.join()
    assert [spec.name for spec in done[0].added] == ["poll"]
    assert done[0].unchanged == ("nightly",)


def test_what_is_exported_applies_elsewhere_and_changes_nothing_here(database: Database, make_database: Any) -> None:
    apply(database, NIGHTLY, POLL)
    made.add(database, "by-hand", manual=True, description="ünïcode: *")
    with database.engine.connect() as connection:
        text_ = write(applying.exported(connection, []))
        one = write(applying.exported(connection, [], origin="file"))
    wanted = read("a.yaml", text_)
    assert [spec.name for spec in wanted.specs] == ["by-hand", "nightly", "poll"]
    assert [spec.name for spec in read("a.yaml", one).specs] == ["nightly", "poll"]
    assert apply(database, *wanted.specs).does_nothing
    assert len(apply(make_database(), *wanted.specs).added) == 3


def test_the_entries_of_a_celery_beat_run_as_rows(database: Database) -> None:
    with Celery("shop", broker="memory://", set_as_current=False) as app:
        app.conf.timezone = "Europe/Oslo"
        app.conf.beat_schedule = {
            "nightly": {"task": "step.ok", "schedule": crontab(minute="30", hour="2"), "kwargs": {"to": "ada"}},
            "number": {"task": "step.number", "schedule": 30, "kwargs": {"n": 3}, "options": {"queue": "bulk"}},
        }
        wanted = taken(app, made.kinds()).wanted
    apply(database, *wanted.specs, origin=wanted.origin)
    assert there(database) == {"nightly": ("celery:shop", 1), "number": ("celery:shop", 1)}
    for name in ("nightly", "number"):
        made.let_come(database, name)
    assert made.fire(database) == 2
    assert made.work(database) == 2
    found = made.rows(database, "select kind, queue, state, submitter from tasks order by kind")
    assert [tuple(row) for row in found] == [
        ("step.number", "bulk", "succeeded", "schedule number"),
        ("step.ok", "default", "succeeded", "schedule nightly"),
    ]


def test_the_names_of_text_columns_hold_what_a_file_may_say(database: Database) -> None:
    longest = made.spec("n" * 200, description="d" * 2000, every=5)
    apply(database, longest, origin="o" * 100)
    with database.engine.connect() as connection:
        found = connection.execute(text("select length(name), length(description), length(origin) from schedules"))
        assert tuple(found.one()) == (200, 2000, 100)
