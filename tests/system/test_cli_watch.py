"""Following a run from outside: phases as they come, its end at once, with and without being told."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure.cli import follow
from tenure.cli.followed import FollowedActivity
from tenure.model.errors import Refused
from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.slot import Bench
from tests.support.until import until

LISTENING = (
    "select count(*) from pg_stat_activity where application_name = 'tenure listener' and datname = current_database()"
)


class Steered:
    """A run in this process that goes on when it is told to."""

    def __init__(self, database: Database) -> None:
        self.go_on = [threading.Event() for _ in range(3)]
        self.kind = kind("steered", on_shutdown="release")(self._body)
        self.bench = Bench(database, self.kind, run_on_tasks=1)
        self.task = self.bench.submit(self.kind)
        self.running = self.bench.aside(self.task)
        until(lambda: self.bench.one("select count(*) from activity_phases") == 3)

    def _body(self, attempt: Attempt, params: object) -> None:
        attempt.begin(phases=["import/users", "settle"])
        attempt.phase("import/users", total=10)
        for done, event in enumerate(self.go_on, start=1):
            event.wait(20)
            attempt.progress(done)
        attempt.phase("settle")

    def close(self) -> None:
        for event in self.go_on:
            event.set()
        self.running.join(10)
        self.bench.close()


@pytest.fixture
def steered(database: Database) -> Iterator[Steered]:
    made = Steered(database)
    yield made
    made.close()


@pytest.fixture
def tenure(tmp_path: Path, database: Database, broker_url: str) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)


def users(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = [phase for phase in document["phases"] if phase["path"] == "import/users"]
    return dict(found)


def test_watch_prints_a_document_per_change_with_phases_and_pace(tenure: Tenure, steered: Steered) -> None:
    watching = tenure.start("tasks", "watch", str(steered.task), "--json")
    assert watching.stdout
    first = json.loads(watching.stdout.readline())
    assert [phase["path"] for phase in first["phases"]] == ["import", "import/users", "settle"]
    until(lambda: steered.bench.one(LISTENING) == 1)
    steered.go_on[0].set()
    while users(found := json.loads(watching.stdout.readline()))["done"] is None:
        pass
    assert users(found)["total"] == 10
    for event in steered.go_on:
        event.set()
    documents = [json.loads(line) for line in watching.communicate(timeout=15)[0].splitlines()]
    assert watching.returncode == 0
    last = documents[-1]
    assert {phase["path"]: phase["status"] for phase in last["phases"]} == {
        "import": "completed", "import/users": "completed", "settle": "completed",
    }  # fmt: skip
    assert (users(last)["done"], users(last)["seconds_left"]) == (3, None)
    assert last["state"] == "succeeded"


def test_who_listens_hears_of_changes_and_of_the_end_without_reading_again_and_again(
    steered: Steered, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LISTENING", 60.0)
    monkeypatch.setenv("TENURE_DATABASE_URL", database.url)
    monkeypatch.delenv("TENURE_DIRECT_URL", raising=False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    read: list[dict[str, Any]] = []
    for found in follow.snapshots(FollowedActivity(steered.task), live=True):
        read.append(found)
        if len(read) == 2:  # the second is read once it listens
            steered.go_on[0].set()
        if users(found)["done"] == 1:
            for event in steered.go_on:
                event.set()
    assert read[-1]["status"] == "complete"
    assert {users(one)["done"] for one in read} >= {None, 1, 3}
    assert len(read) <= 6


def test_a_lost_notification_is_made_up_for_by_reading(tenure: Tenure, steered: Steered, database: Database) -> None:
    watching = tenure.start("tasks", "watch", str(steered.task), "--json")
    assert watching.stdout
    watching.stdout.readline()
    until(lambda: steered.bench.one(LISTENING) == 1)
    with database.engine.begin() as connection:
        connection.execute(text(LISTENING.replace("count(*)", "pg_terminate_backend(pid)")))
    began = time.monotonic()
    for event in steered.go_on:
        event.set()
    out, errors = watching.communicate(timeout=15)
    assert json.loads(out.splitlines()[-1])["state"] == "succeeded"
    assert (watching.returncode, errors) == (0, "")
    assert time.monotonic() - began < 10


def test_without_a_terminal_a_watch_says_a_line_per_change(tenure: Tenure, steered: Steered) -> None:
    watching = tenure.start("activities", "watch", str(steered.task))
    assert watching.stderr
    lines = [watching.stderr.readline() for _ in range(2)]
    assert lines[0].startswith("tenure: steered  in_progress, running, attempt 1 of 1, token ")
    assert lines[1] == "tenure: phases: import, import/users, settle\n"
    for event in steered.go_on:
        event.set()
    out, errors = watching.communicate(timeout=15)
    assert (watching.returncode, out) == (0, "complete\n")
    assert "import/users: completed after " in errors


def test_an_unknown_activity_is_named(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", database.url)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    unknown = UUID(int=5)
    with pytest.raises(Refused, match=f"no activity {unknown}"):
        next(follow.snapshots(FollowedActivity(unknown)))
