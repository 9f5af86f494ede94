"""`tenure schedules`, as a user types it, against a real database; what it starts is run by a real worker and beat."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure import client
from tests.support import schedules as made
from tests.support import tasks
from tests.support.celery_processes import CeleryProcess
from tests.support.command import ROOT, Tenure
from tests.support.databases import Database
from tests.support.until import until
from tests.support.workers import KINDS, Worker

UNKNOWN = "01a22c5a-4f05-702f-8b2e-83c73ac25178"


@pytest.fixture
def tenure(tmp_path: Path, database: Database, broker_url: str) -> Tenure:
    return Tenure(
        tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url, TENURE_KINDS=f"{KINDS},{made.STEPS}"
    )


def added(tenure: Tenure, *steps: str, name: str = "nightly", recurs: tuple[str, ...] = ("--manual",)) -> Any:
    given = [part for step in steps for part in ("--step", step)]
    return tenure.json("schedules", "add", name, *recurs, *given)


def test_groups_failure_handling_and_params_are_said_with_the_step(tenure: Tenure) -> None:
    found = added(tenure, 'step.ok:{"a": {"b": ":@+"}}', "+step.fails@continue", 'step.number@stop:{"n": 1}')
    steps = [[(s["kind"], s["on_failure"], s["params"]) for s in group] for group in found["steps"]]
    assert steps == [
        [("step.ok", "inherit", {"a": {"b": ":@+"}}), ("step.fails", "continue", {})],
        [("step.number", "stop", {"n": 1})],
    ]
    assert tenure.json("schedules", "show", "nightly") == {**found, "upcoming": [], "occurrences": []}


def test_when_it_recurs_is_shown_in_words_and_kept_as_said(tenure: Tenure) -> None:
    line = tenure.line(
        "schedules", "add", "night", "--cron", "30  2 * * *", "--zone", "Europe/Oslo", "--step", "step.ok"
    )
    assert line.startswith("schedule night added: first due ")
    added(tenure, "step.ok", name="often", recurs=("--every", "90s"))
    added(tenure, "step.ok", name="hand")
    upcoming = [datetime.fromisoformat(at) for at in tenure.json("schedules", "show", "night")["upcoming"]]
    assert [at.astimezone(ZoneInfo("Europe/Oslo")).hour for at in upcoming] == [2] * 5
    assert upcoming == sorted(set(upcoming))
    listed = {
        row["name"]: (row["cron"], row["zone"], row["every"], row["manual"]) for row in tenure.json("schedules", "list")
    }
    assert listed["night"] == ("30 2 * * *", "Europe/Oslo", None, False)
    assert listed["often"] == (None, None, 90.0, False)
    assert listed["hand"] == (None, None, None, True)
    table = tenure.line("schedules", "list")
    assert all(words in table for words in ("30 2 * * * Europe/Oslo", "every 90s", "by hand"))


def test_what_is_built_in_is_listed_and_not_removed(tenure: Tenure) -> None:
    rows = {row["name"]: row for row in tenure.json("schedules", "list")}
    assert rows["platform.retention"]["every"] == 3600
    assert {name: row["every"] for name, row in rows.items() if row.get("service")} == {
        "recovery": 5.0, "safety_net": 30.0, "housekeeping": 60.0,
    }  # fmt: skip
    assert all(row["built_in"] for row in rows.values())
    assert "built in: disable or pause it" in tenure.refused(1, "schedules", "remove", "platform.retention")
    assert "recovery" in tenure.refused(1, "schedules", "pause", "recovery")


@pytest.mark.parametrize(
    ("code", "words", "arguments"),
    [
        (2, "say when it recurs", []),
        (2, "say when it recurs", ["--manual", "--every", "90s"]),
        (2, "zone belongs to cron", ["--every", "90s", "--zone", "Europe/Oslo"]),
        (2, "minute '61'", ["--cron", "61 * * * *"]),
        (2, "is Europe/Oslo meant?", ["--cron", "* * * * *", "--zone", "Europe/Olso"]),
        (2, "'--every': 'soon'", ["--every", "soon"]),
        (2, "step '+step.ok': + runs it beside", ["--manual", "--step", "+step.ok"]),
        (2, "@stop or @continue, not @maybe", ["--manual", "--step", "step.ok@maybe"]),
        (2, "write [+]KIND", ["--manual", "--step", "two words"]),
        (2, "not JSON", ["--manual", "--step", "step.ok:{"]),
        (2, "step 1: unknown kind 'nope'", ["--manual", "--step", "nope"]),
        (2, "step 1: step.number: n: ", ["--manual", "--step", "step.number"]),
        (1, "step 1: kind step.inner is internal: use step.outer()", ["--manual", "--step", "step.inner"]),
    ],
)
def test_a_wrong_schedule_is_one_line_and_makes_nothing(
    tenure: Tenure, database: Database, code: int, words: str, arguments: list[str]
) -> None:
    steps = [] if "--step" in arguments else ["--step", "step.ok"]
    assert words in tenure.refused(code, "schedules", "add", "wrong", *arguments, *steps)
    assert tasks.value(database, "select count(*) from schedules where not built_in") == 0


def test_pause_disable_and_remove_say_what_they_did(tenure: Tenure) -> None:
    added(tenure, "step.ok", recurs=("--every", "1h"))
    assert tenure.line("schedules", "pause", "nightly", "--reason", "audit") == "schedule nightly paused"
    assert tenure.json("schedules", "pause", "nightly") == {"schedule": "nightly", "paused": True, "changed": False}
    assert ": audit" in tenure.line("schedules", "list")
    assert tenure.line("schedules", "resume", "nightly") == "schedule nightly resumed"
    assert tenure.line("schedules", "disable", "nightly") == "schedule nightly disabled"
    assert tenure.json("schedules", "show", "nightly")["next_run_at"] is None
    assert tenure.json("schedules", "enable", "nightly") == {"schedule": "nightly", "enabled": True, "changed": True}
    assert tenure.line("schedules", "enable", "nightly") == "schedule nightly was already enabled"
    assert tenure.json("schedules", "show", "nightly")["next_run_at"] is not None
    assert tenure.line("schedules", "enable", "records.revalidation") == "schedule records.revalidation enabled"
    assert tenure.line("schedules", "remove", "nightly") == "schedule nightly removed"
    assert "no schedule 'nightly'" in tenure.refused(1, "schedules", "remove", "nightly")


def test_a_run_by_hand_that_overlaps_is_refused_and_its_cancel_is_asked_once(
    tenure: Tenure, database: Database
) -> None:
    added(tenure, "step.ok", "step.ok")
    execution_id = tenure.json("schedules", "run", "nightly")["execution_id"]
    assert execution_id in tenure.refused(1, "schedules", "run", "nightly")
    listed = tenure.json("tasks", "list", "--execution", execution_id)
    assert sorted(row["state"] for row in listed) == ["queued", "waiting"]
    assert {row["execution_id"] for row in listed} == {execution_id}
    (waiting,) = (row["id"] for row in listed if row["state"] == "waiting")
    assert tenure.line("tasks", "why", waiting).splitlines()[1].strip() == (
        f"it is of group 2 of 2 of execution {execution_id} of schedule nightly; 1 tasks of the groups before it have not ended"
    )
    assert tenure.json("tasks", "show", waiting)["group"] == 1
    assert tenure.line("schedules", "cancel", execution_id) == "cancelling"
    assert tenure.json("schedules", "cancel", execution_id)["state"] == "cancelling"
    assert "no execution" in tenure.refused(1, "schedules", "cancel", UNKNOWN)


def test_why_names_what_a_waiting_execution_waits_for(tenure: Tenure, database: Database) -> None:
    tenure.json("schedules", "add", "nightly", "--manual", "--overlap", "queue_one", "--step", "step.ok")
    first = tenure.json("schedules", "run", "nightly")["execution_id"]
    second = tenure.json("schedules", "run", "nightly")["execution_id"]
    (row,) = tenure.json("tasks", "list", "--execution", second)
    with database.engine.connect() as connection:
        (reason,) = client.why(connection, row["id"])["reasons"]
    assert reason["text"].endswith(f"which has not started: it starts after execution {first}")


def test_a_backfill_runs_what_has_not_run(tenure: Tenure) -> None:
    added(tenure, "step.ok", recurs=("--cron", "0 * * * *"))
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    given = [moment.isoformat() for moment in (end - timedelta(hours=3), end)]
    assert len(tenure.json("schedules", "backfill", "nightly", *given)["executions"]) == 3
    assert tenure.line("schedules", "backfill", "nightly", *given) == "nothing to run: all have run"
    assert "ahead" in tenure.refused(2, "schedules", "backfill", "nightly", given[0], "2190-01-01T00:00:00Z")


def test_the_doctor_says_that_nobody_fires_what_is_due(tenure: Tenure, database: Database) -> None:
    added(tenure, "step.ok", recurs=("--every", "1h"))
    made.let_come(database, ago=timedelta(minutes=1))
    found = json.loads(tenure("doctor", "--json").stdout)
    (check,) = [check for check in found["checks"] if check["name"] == "schedules"]
    assert check["state"] == "wrong"
    assert check["finding"].startswith("1 are due and not fired, for up to ")
    assert "start `tenure beat`" in check["advice"]


def test_beat_and_worker_run_a_schedule_and_wait_tells_how_it_ended(
    tenure: Tenure, tmp_path: Path, database: Database, broker_url: str
) -> None:
    beat = ("celery", "-A", "tenure_workers", "-q", "beat", "-S", "tenure", "-l", "INFO")
    environment = {"TENURE_KINDS": f"{KINDS},{made.STEPS}", "PYTHONPATH": str(ROOT)}
    urls = {"database_url": database.url, "broker_url": broker_url}
    with (
        CeleryProcess(beat, home=tmp_path / "beat", name="beat", **urls, **environment) as running,
        Worker(database.url, broker_url, env=environment) as worker,
    ):
        running.wait_for('"ready"')
        worker.wait_ready()
        added(tenure, "step.ok", "+step.ok", "step.ok", name="often", recurs=("--every", "1s", "--overlap", "allow"))

        def shown() -> Any:
            done = [o for o in tenure.json("schedules", "show", "often")["occurrences"] if o["state"] == "succeeded"]
            return done if len(done) >= 2 else None

        occurrence = until(shown, 20)[-1]
        assert [(task["group"], task["state"]) for task in occurrence["tasks"]] == [
            (0, "succeeded"),
            (0, "succeeded"),
            (1, "succeeded"),
        ]
        assert occurrence["due_at"] <= occurrence["started_at"] < occurrence["finished_at"]
        added(tenure, "step.ok", "step.fails", "step.ok", name="broken")
        done = tenure("schedules", "run", "broken", "--wait", "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["state"] == "failed"
        assert "step.ok succeeded > step.fails failed > step.ok cancelled" in done.stderr
        added(tenure, "step.ok", name="fine")
        assert tenure("schedules", "run", "fine", "--wait").stdout == "succeeded\n"
        running.process.terminate()
        assert running.wait(10) == 0
