"""Three real beats on one database, killed, frozen and thawed at random: every occurrence once, and none late."""

import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tenure import schedules
from tenure.model.records import Initiator
from tests.support import schedules as made
from tests.support.celery_processes import CeleryProcess
from tests.support.databases import Database
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import KINDS, Worker

BEAT = ("celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "INFO")
SECONDS = scaled(30, 300)
INTERVALS = {"half": 0.5, "whole": 1.0}
SLACK = 1.0  # s that a gap may be longer than the interval


class Replica:
    """One of the beats; it is replaced when it was killed."""

    def __init__(self, home: Path, number: int, database_url: str, broker_url: str) -> None:
        self._home, self._number, self._urls = home, number, (database_url, broker_url)
        self.lives = 0
        self.frozen = False
        self.start()

    def start(self) -> None:
        self.lives += 1
        home = self._home / f"{self._number}-{self.lives}"
        database_url, broker_url = self._urls
        self.process = CeleryProcess(
            BEAT, home=home, name="beat", database_url=database_url, broker_url=broker_url, TENURE_KINDS=KINDS,
            PYTHONPATH=str(Path(__file__).parents[2]),
        )  # fmt: skip

    @property
    def fires(self) -> bool:
        """Whether this one can be relied on now."""
        return not self.frozen and self.process.process.poll() is None and '"ready"' in self.process.text()

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.process.wait(10)
        self.frozen = False

    def freeze(self) -> None:
        self.process.send(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self.process.send(signal.SIGCONT)
        self.frozen = False


@pytest.fixture
def replicas(tmp_path: Path, database: Database, broker_url: str) -> Iterator[list[Replica]]:
    made = [Replica(tmp_path, number, database.url, broker_url) for number in (1, 2, 3)]
    yield made
    for one in made:
        if one.process.process.poll() is None:
            one.process.process.kill()
            one.process.process.wait(10)


def disturb(replicas: list[Replica], chance: random.Random) -> str | None:
    """One random act on one replica, as long as another one is left that fires."""
    for one in chance.sample(replicas, len(replicas)):
        others = [other for other in replicas if other is not one and other.fires]
        if one.process.process.poll() is not None:
            act = "start"
        elif one.frozen:
            act = "thaw"
        elif one.fires and others:
            act = chance.choice(["kill", "freeze", "freeze", "freeze"])
        else:
            continue  # it has just been started, or is the last one that fires
        getattr(one, act)()
        return act
    return None


@pytest.mark.timeout(600)
def test_every_occurrence_fires_once_while_replicas_are_killed_and_frozen(
    replicas: list[Replica], database: Database, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_KINDS", KINDS)
    tasks = Tasks(database.engine)
    until(lambda: all(one.fires for one in replicas), 120)
    with Worker(database.url, broker_url) as worker:
        worker.wait_ready()
        with database.engine.begin() as connection:
            for name, seconds in INTERVALS.items():
                wanted = made.spec(name, "ledger", every=seconds, overlap="allow")
                schedules.add(connection, wanted, initiator=Initiator("test", "1", "test"))
        chance = random.Random(os.environ.get("TENURE_TEST_SEED", "1815"))
        acts: list[str | None] = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.05, 0.8))
            acts.append(disturb(replicas, chance))
        with database.engine.begin() as connection:
            for name in INTERVALS:
                schedules.pause(connection, name, initiator=Initiator("test", "1", "test"))
        for one in replicas:
            if one.frozen:
                one.thaw()
        until(lambda: tasks.one("select count(*) from executions where finished_at is null") == 0, 60)
    counted = {act: acts.count(act) for act in ("kill", "start", "freeze", "thaw")}
    assert all(counted.values()), counted
    gaps = {name: check(tasks, name, seconds) for name, seconds in INTERVALS.items()}
    print(f"replicas: {SECONDS} s, {counted}, largest gaps {gaps}")


def check(tasks: Tasks, name: str, seconds: float) -> float:
    """One execution per due time and one effect per execution; the largest time between two firings (s)."""
    rows = tasks.rows(
        """select x.due_at, x.created_at, x.state, (select count(*) from tasks k where k.execution_id = x.id),
            (select count(*) from ledger l join tasks k on k.id = l.task_id where k.execution_id = x.id)
        from executions x where x.schedule_name = :name order by x.due_at""",
        name=name,
    )
    assert len(rows) > 0.8 * SECONDS / seconds
    assert {tuple(row[2:]) for row in rows} == {("succeeded", 1, 1)}
    steps = {after[0] - before[0] for before, after in pairwise(rows)}
    assert steps == {timedelta(seconds=seconds)}, "every due time of the interval, none twice"
    fired = sorted(row[1] for row in rows)
    gap = max((after - before).total_seconds() for before, after in pairwise(fired))
    assert gap <= seconds + SLACK
    assert tasks.one("select missed from schedules where name = :name", name=name) == 0
    return round(gap, 3)
