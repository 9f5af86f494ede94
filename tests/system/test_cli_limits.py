"""`tenure limits`, as a process against a real database."""

from pathlib import Path

import pytest

from tests.support.command import Tenure
from tests.support.databases import Database


@pytest.fixture
def tenure(tmp_path: Path, database: Database) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url)


def test_limits_are_set_listed_and_removed(tenure: Tenure) -> None:
    assert tenure.json("limits", "set", "10") == {"what": "global", "name": "", "at_most": 10}
    assert tenure.line("limits", "set", "4", "--kind", "tests.count") == "at most 4 at once: kind tests.count"
    tenure.json("limits", "set", "1", "--scope", "ldap")
    tenure.json("limits", "set", "2", "--each-scope", "tests.count")
    listed = {row["what"]: (row["name"], row["at_most"], row["running"]) for row in tenure.json("limits", "list")}
    assert listed == {
        "global": ("", 10, 0),
        "kind": ("tests.count", 4, 0),
        "scope": ("ldap", 1, 0),
        "each scope": ("tests.count", 2, None),
    }
    assert tenure.json("limits", "remove", "--kind", "tests.count")["removed"] is True
    assert tenure.line("limits", "remove", "--kind", "tests.count") == "no limit was set: kind tests.count"
    assert len(tenure.json("limits", "list")) == 3


def test_a_limit_that_makes_no_sense_is_refused(tenure: Tenure) -> None:
    assert "unknown kind 'nope'" in tenure.refusal(2, "limits", "set", "1", "--kind", "nope")
    assert "give one of" in tenure.refusal(2, "limits", "set", "1", "--kind", "tests.count", "--scope", "ldap")
    assert tenure.json("limits", "list") == []


def test_a_task_is_submitted_into_a_scope_and_alone(tenure: Tenure) -> None:
    made = tenure.json("tasks", "submit", "tests.count", "--params", '{"rows": 1}', "--scope", "ldap", "--exclusive")
    shown = tenure.json("tasks", "show", made["id"])
    assert (shown["scope"], shown["exclusive"]) == ("ldap", True)
