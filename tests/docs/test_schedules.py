"""What docs/schedules.md shows: the table of nights on which clocks are set, and the file."""

import re
import shlex
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine

from tenure import applying, registry
from tenure.model.definitions import read
from tenure.model.recurrence import occurrences, parse_cron
from tests.docs.pages import ROOT
from tests.support import tasks
from tests.support.cron_oracle import fires
from tests.support.databases import Database
from tests.support.transitions import transitions

PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (\w+/\w+) \| (\d{4}-\d\d-\d\d) \| ([^|]+) \|$", PAGE, re.MULTILINE)
AROUND = timedelta(hours=2)


@pytest.mark.parametrize(("line", "name", "night", "runs"), ROWS, ids=lambda part: part)
def test_a_night_of_the_table_is_as_it_says(line: str, name: str, night: str, runs: str) -> None:
    zone, day = ZoneInfo(name), datetime.fromisoformat(night)
    near = [
        at for at in transitions(zone, day.year, day.year) if abs(at.replace(tzinfo=None) - day) < timedelta(hours=26)
    ]
    start, end = near[0] - AROUND, near[0] + AROUND
    found = list(occurrences(parse_cron(line, name), start, end))
    assert (
        ", ".join(at.astimezone(zone).isoformat()[11:16] + at.astimezone(zone).isoformat()[19:] for at in found) == runs
    )
    assert found == fires(line, zone, start, end)


def test_the_table_shows_gaps_folds_and_both_sorts_of_lines() -> None:
    assert len(ROWS) == 10


def test_the_file_is_quoted_as_it_is_and_can_be_applied(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    example = ROOT / "docs" / "examples" / "schedules.toml"
    assert f"<!-- example: docs/examples/schedules.toml -->\n```toml\n{example.read_text()}```" in PAGE
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    monkeypatch.setenv("TENURE_KINDS", "hello_kind")
    wanted = read(example.name, example.read_text())
    engine: Engine = database.engine
    for added in (3, 0):
        with engine.begin() as connection:
            assert len(applying.apply(connection, wanted, initiator=tasks.ADA).added) == added


def test_schedules_that_the_page_adds_run_kinds_that_are_installed() -> None:
    lines = PAGE.replace("\\\n", " ").splitlines()
    words = [word for line in lines if "schedules add " in line for word in shlex.split(line)]
    steps = [step for option, step in pairwise(words) if option == "--step"]
    assert len(steps) == 4
    assert {re.split("[@:]", step.removeprefix("+"))[0] for step in steps} <= set(registry.load(()).names)
