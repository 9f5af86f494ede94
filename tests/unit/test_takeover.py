"""A Celery app's `beat_schedule` as schedules of ours."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab, schedule, solar
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tenure.model.definitions import StepSpec, read, write
from tenure.model.errors import InvalidSettings, UnknownKind, UsageError
from tenure.model.kinds import kind
from tenure.model.recurrence import next_after, parse_cron
from tenure.registry import Registry
from tenure_celery.crontabs import line_of
from tenure_celery.errors import UnsupportedByTenure
from tenure_celery.takeover import from_reference, taken
from tests.support.tasks import scale


class Mail(BaseModel):
    to: str = "all"


@kind("shop.mail", params=Mail, priority=10)
def mail(attempt: Any, params: Mail) -> None: ...


KINDS = Registry([mail])


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("shop", broker="memory://", set_as_current=False) as made:
        made.conf.timezone = "Europe/Oslo"
        yield made


def entry(when: Any = 60, **fields: Any) -> dict[str, Any]:
    return {"task": "shop.mail", "schedule": when, **fields}


def only(app: Celery, when: Any = 60, **fields: Any) -> Any:
    app.conf.beat_schedule = {"one": entry(when, **fields)}
    return taken(app, KINDS).wanted.specs[0]


def test_every_sort_of_recurrence_is_taken_over(app: Celery) -> None:
    app.conf.beat_schedule = {
        "crontab": entry(crontab(minute="30", hour="2")),
        "delta": entry(timedelta(minutes=90)),
        "seconds": entry(30),
        "fraction": entry(0.5),
        "schedule": entry(schedule(run_every=10)),
        "entry": ScheduleEntry(name="entry", task="shop.mail", schedule=20, app=app),
    }
    wanted = taken(app, KINDS).wanted
    assert wanted.origin == "celery:shop"
    assert {one.name: (one.cron, one.zone, one.every) for one in wanted.specs} == {
        "crontab": ("30 2 * * *", "Europe/Oslo", None),
        "delta": (None, None, 5400.0),
        "seconds": (None, None, 30.0),
        "fraction": (None, None, 0.5),
        "schedule": (None, None, 10.0),
        "entry": (None, None, 20.0),
    }


def test_what_it_sends_and_how_it_repeats_stays(app: Celery) -> None:
    found = only(
        app, kwargs={"to": "ada"}, options={"queue": "bulk", "priority": 3, "labels": {"a": "b"}, "deadline": 60}
    )
    assert found.steps == [
        [StepSpec(kind="shop.mail", params={"to": "ada"}, queue="bulk", priority=13, labels={"a": "b"}, deadline=60.0)]
    ]  # no Redis: Celery's larger priority goes first, as ours does
    assert (found.overlap, found.misfire, found.enabled) == ("allow", "once", True)


def test_periodic_tasks_that_are_added_in_code_are_taken_over(app: Celery) -> None:
    @app.task(name="shop.mail")
    def send(to: str) -> None: ...

    @app.on_after_finalize.connect
    def add(sender: Celery, **_: Any) -> None:
        sender.add_periodic_task(45.0, send.s(to="bob"), name="added")

    found = taken(app, KINDS).wanted.specs
    assert [(one.name, one.every, one.steps[0][0].params) for one in found] == [("added", 45.0, {"to": "bob"})]


def test_the_zone_is_the_apps(app: Celery) -> None:
    app.conf.timezone = None
    assert only(app, crontab(minute="0")).zone == "UTC"


def test_an_app_that_cannot_be_set_up_is_said_without_foreign_text(app: Celery) -> None:
    app.conf.include = ["nowhere_at_all"]
    with pytest.raises(
        InvalidSettings, match=r"the Celery app shop cannot be set up \(no module named nowhere_at_all\)"
    ):
        taken(app, KINDS)


def test_a_function_that_adds_entries_and_fails_is_said_without_foreign_text(app: Celery) -> None:
    @app.on_after_finalize.connect
    def add(sender: Celery, **_: Any) -> None:
        raise SystemExit("secret")

    with pytest.raises(InvalidSettings) as refusal:
        taken(app, KINDS)
    assert "cannot be set up (SystemExit)" in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_what_is_left_out_is_noted(app: Celery) -> None:
    app.conf.beat_schedule = {
        "one": entry(schedule(60, relative=True), options={"expires": 5}),
        "two": entry(relative=True),
    }
    notes = taken(app, KINDS).notes
    assert [note.split(" is left out")[0] for note in notes] == ["one: expires", "one: relative", "two: relative"]


class Odd(crontab):
    pass


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        (entry(solar.__new__(solar)), UnsupportedByTenure, "a schedule of the sort solar is not supported"),
        (entry(Odd(minute="5")), UnsupportedByTenure, "a schedule of the sort Odd is not supported"),
        (entry(None), UnsupportedByTenure, "a schedule of the sort NoneType"),
        (entry(crontab("0", "0", day_of_week="mon", day_of_month="2-9")), UnsupportedByTenure, "must both fit in Celery"),
        (entry(0.01), UsageError, "interval 0.01"),
        (entry(task="shop.other"), UnknownKind, "unknown kind 'shop.other'"),
        (entry(args=("ada",)), UnsupportedByTenure, "positional arguments"),
        (entry(kwargs={"at": datetime(2026, 1, 1)}), UsageError, "kwargs hold what JSON cannot carry"),
        (entry(options={"link": "x"}), UnsupportedByTenure, "link is not supported"),
        (entry(options={"countdown": 5}), UnsupportedByTenure, "option 'countdown' cannot be carried over"),
        (entry(options={"priority": 11}), UsageError, "Celery's priorities are 0 to 9"),
        (entry(options={"labels": {"a": 1}}), UsageError, "labels"),
        (entry(retries=3), UsageError, "'retries' is no field of an entry"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_over_is_refused_by_the_entrys_name(
    app: Celery, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    app.conf.beat_schedule = {"fine": entry(), "wrong": fields}
    with pytest.raises(error) as refusal:
        taken(app, KINDS)
    assert str(refusal.value).startswith("beat_schedule entry 'wrong': ")
    assert said in str(refusal.value)


def test_a_zone_without_a_name_is_refused(app: Celery) -> None:
    app.timezone = timezone(timedelta(hours=1))
    with pytest.raises(UnsupportedByTenure, match="set `timezone` to an IANA zone"):
        only(app, crontab(minute="0"))


def test_what_is_taken_over_can_be_written_to_a_file(app: Celery) -> None:
    app.conf.beat_schedule = {"a": entry(crontab("*/5", "8-17", "mon-fri")), "b": entry(30, kwargs={"to": "ada"})}
    wanted = taken(app, KINDS).wanted
    assert read("a.yaml", write(wanted.specs, wanted.origin)) == wanted


def test_an_app_is_found_as_celery_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "from celery import Celery\napp = Celery('mill', broker='memory://', set_as_current=False)\n"
    (tmp_path / "windmill.py").write_text(
        module + "app.conf.beat_schedule = {'x': {'task': 'shop.mail', 'schedule': 5}}\n"
    )
    (tmp_path / "millstone.py").write_text("raise SystemExit('secret')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert from_reference("windmill:app", KINDS).wanted.specs[0].every == 5.0
    for reference, said in [
        ("nowhere:app", "no module named nowhere"),
        ("windmill:other", "no Celery app can be imported ("),
        ("windmill:module", "no Celery app"),
        ("millstone:app", "(SystemExit)"),
    ]:
        with pytest.raises(InvalidSettings) as refusal:
            from_reference(reference, KINDS)
        assert said in str(refusal.value)
        assert "secret" not in str(refusal.value)


def subset(low: int, high: int) -> st.SearchStrategy[set[int] | str]:
    some = st.sets(st.integers(low, high), min_size=1, max_size=5)
    return st.just("*") | some | st.integers(2, 8).map(lambda n: f"*/{n}")


week = st.sampled_from(["*", "mon", "sun", "mon-fri", "sat,sun", "*/2", "fri-mon"])
days = st.sampled_from(["*", "1", "1-7", "8-14,15-21", "*/2", "*/10", "31", "1,15"])


@given(subset(0, 59), subset(0, 23), week, days, subset(1, 12), st.integers(0, 700_000))
@settings(max_examples=scale(2000, 150), deadline=None)
def test_a_line_is_due_when_its_crontab_is(minute: Any, hour: Any, weekday: Any, day: Any, month: Any, at: int) -> None:
    try:
        theirs = crontab(minute, hour, weekday, day, month, nowfun=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        ours = parse_cron(line_of(theirs), "UTC")
    except (ValueError, UnsupportedByTenure):
        return  # 31 February, or two day fields that no line joins
    theirs.app = UTC_APP
    moment = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=at)
    for _ in range(4):
        last, delta, _ = theirs.remaining_delta(moment, tz=UTC)
        assert next_after(ours, moment) == last + delta, (ours.line, moment)
        moment = last + delta


UTC_APP = Celery("utc", broker="memory://", set_as_current=False)
