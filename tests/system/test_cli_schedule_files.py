"""`tenure schedules apply`, `export` and `take-over`, as a user starts them against a real database."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.schedules import STEPS

FILE = """
[schedules.nightly]
cron = "30 2 * * *"
zone = "Europe/Oslo"
steps = ["step.ok", ["step.ok", { kind = "step.number", params = { n = 1 } }]]

[schedules.poll]
every = "90s"
steps = ["step.ok"]
"""


@pytest.fixture
def tenure(tmp_path: Path, database: Database) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_KINDS=STEPS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "plan.toml"
    made.write_text(FILE)
    return made


def listed(tenure: Tenure) -> list[dict[str, Any]]:
    """What is not built in."""
    return [row for row in tenure.json("schedules", "list") if not row["built_in"]]


def test_a_file_is_applied_after_a_look_and_twice_is_once(tenure: Tenure, file: Path) -> None:
    planned = tenure.line("schedules", "apply", str(file), "--dry-run")
    assert planned.splitlines() == [
        "+ nightly: 30 2 * * * Europe/Oslo, step.ok > step.ok + step.number",
        "+ poll: every 90s, step.ok",
        "2 added; nothing was written (--dry-run)",
    ]
    assert listed(tenure) == []
    assert tenure.line("schedules", "apply", str(file)).splitlines()[-1] == "2 added"
    assert tenure.line("schedules", "apply", str(file)) == "2 unchanged"
    assert {row["name"]: row["origin"] for row in listed(tenure)} == {
        "nightly": "file",
        "poll": "file",
    }


def test_what_differs_is_shown_field_by_field(tenure: Tenure, file: Path) -> None:
    tenure.line("schedules", "apply", str(file))
    file.write_text(FILE.replace("n = 1", "n = 2").partition("[schedules.poll]")[0] + 'overlap = "allow"\n')
    assert tenure.line("schedules", "apply", str(file), "--dry-run").splitlines() == [
        "~ nightly",
        "    overlap: skip → allow",
        '    step 2.2 params: {"n": 1} → {"n": 2}',
        "? poll: wanted no more; --prune removes it",
        "1 changed; nothing was written (--dry-run)",
    ]
    assert tenure.json("schedules", "apply", str(file), "--prune") == {
        "origin": "file",
        "dry_run": False,
        "added": [],
        "changed": [
            {
                "name": "nightly",
                "changes": [
                    {"field": "overlap", "before": "skip", "after": "allow"},
                    {"field": "step 2.2 params", "before": '{"n": 1}', "after": '{"n": 2}'},
                ],
            }
        ],
        "removed": ["poll"],
        "unchanged": [],
        "left": [],
    }


def test_what_is_exported_is_a_file_that_changes_nothing(tenure: Tenure, file: Path, tmp_path: Path) -> None:
    tenure.line("schedules", "apply", str(file))
    yaml, document = tmp_path / "out.yaml", tmp_path / "out.json"
    yaml.write_text(tenure.line("schedules", "export"))
    document.write_text(json.dumps(tenure.json("schedules", "export")))
    for made in (yaml, document):
        assert tenure.line("schedules", "apply", str(made)) == "2 unchanged"
    assert list(tenure.json("schedules", "export", "poll")["schedules"]) == ["poll"]
    assert "no schedule 'nope'" in tenure.refused(1, "schedules", "export", "nope")


def test_a_mistake_is_one_line_that_names_file_and_field(tenure: Tenure, file: Path, tmp_path: Path) -> None:
    file.write_text(FILE.replace("90s", "90 cats"))
    assert "plan.toml: schedules.poll.every: '90 cats' is no duration" in tenure.refusal(
        2, "schedules", "apply", str(file)
    )
    file.write_text(FILE.replace("n = 1", "m = 1"))
    assert "schedule nightly, step 3: step.number: n: Field required" in tenure.refused(
        2, "schedules", "apply", str(file)
    )
    assert "cannot read nowhere.toml: No such file" in tenure.refused(2, "schedules", "apply", "nowhere.toml")
    file.write_bytes(b"\xff")
    assert "not UTF-8 at byte 0" in tenure.refused(2, "schedules", "apply", str(file))
    assert listed(tenure) == []


SHOP = """
from celery import Celery
from celery.schedules import crontab

app = Celery("shop", broker="memory://")
app.conf.beat_schedule = {
    "nightly": {"task": "step.ok", "schedule": crontab(minute="30", hour="2"), "options": {"expires": 60}},
    "poll": {"task": "step.number", "schedule": 30.0, "kwargs": {"n": 3}},
}
"""


def test_the_beat_schedule_of_a_celery_app_is_taken_over(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "shop_of_test.py").write_text(SHOP)
    command = tenure.having(PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    done = command("schedules", "take-over", "shop_of_test:app")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        ["+ nightly: 30 2 * * * UTC, step.ok", "+ poll: every 30s, step.number", "2 added"],
    ), done.stderr
    notes = done.stderr.splitlines()
    assert notes[0].startswith("tenure: nightly: expires is left out")
    assert notes[1] == "tenure: stop the celery beat of that app, if it runs: both would send"
    assert {(row["name"], row["origin"], row["overlap"]) for row in listed(tenure)} == {
        ("nightly", "celery:shop", "allow"),
        ("poll", "celery:shop", "allow"),
    }
    assert "no Celery app can be imported" in tenure.refused(2, "schedules", "take-over", "nowhere_at_all:app")
