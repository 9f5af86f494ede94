"""The pytest plugin as users have it: in a project of their own, with an example of ours; and not there until asked for."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

OWN_TESTS = """
from pydantic import BaseModel
from tenure import client, settings
from tenure.model.kinds import kind
from tenure.model.retry import Retry


class Step(BaseModel):
    done: int = 0


@kind("own.steps", on_lost="resume", max_attempts=2, internal="the domain's own call")
def steps(attempt, params):
    step = attempt.resume(Step())
    if step.done == 1 and attempt.number == 1:
        raise AssertionError("nothing resumes in the first attempt")
    while step.done < 3:
        with attempt.transaction() as tx:
            step = attempt.checkpoint(tx, Step(done=step.done + 1), processed=1)
        if attempt.number == 1:
            assert steps_database.expire_lease(attempt.task_id)
    return step.done


@kind("own.again", max_attempts=2)
def again(attempt, params):
    if attempt.number == 1:
        raise Retry("not yet", after=3600)


def test_a_lost_lease_is_recovered_and_resumed(tenure_database, tenure_run):
    global steps_database
    steps_database = tenure_database
    task = tenure_run(steps)
    assert (task["state"], task["counters"]["processed"]) == ("running", 1)
    assert tenure_database.recover() == [(task["id"], "queued")]
    task = tenure_database.run(task["id"], steps)
    assert (task["state"], task["result"]) == ("succeeded", 3)
    assert tenure_database.history(task["id"]) == ["submit", "claim", "recover", "claim", "succeed"]
    assert not tenure_database.expire_lease(task["id"])


def test_the_next_attempt_comes_when_it_is_made_due(tenure_database, tenure_run):
    task = tenure_run(again, labels={"team": "x"})
    assert (task["state"], task["labels"]) == ("scheduled", {"team": "x"})
    assert tenure_database.run(task["id"], again)["state"] == "scheduled"
    assert tenure_database.make_due(task["id"])
    assert tenure_database.run(task["id"], again)["state"] == "succeeded"


def test_each_test_has_a_database_of_its_own_that_settings_name(tenure_database):
    assert settings.load().client_url == tenure_database.url
    with tenure_database.engine.connect() as connection:
        assert client.tasks(connection) == []
"""

WITHOUT = """
import sys


def test_nothing_of_tenure_was_imported_but_the_plugin():
    assert sorted(name for name in sys.modules if name.split(".")[0] in ("tenure", "sqlalchemy")) == [
        "tenure", "tenure.testing", "tenure.testing.plugin",
    ]
"""


def test_users_test_their_kinds_with_the_fixtures_of_the_plugin(pytester: pytest.Pytester) -> None:
    for name in ("hello_kind.py", "hello_app.py", "test_hello.py"):
        pytester.path.joinpath(name).write_text((EXAMPLES / name).read_text())
    pytester.makepyfile(test_own=OWN_TESTS)
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-W", "error", timeout=120)
    done.assert_outcomes(passed=5)


def test_a_session_that_asks_for_no_fixture_loads_nothing_else(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WITHOUT)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=60).assert_outcomes(passed=1)
