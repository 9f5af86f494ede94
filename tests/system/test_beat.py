"""A real beat process: recovers without workers, in any number, and leaves in good order."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import make_url, text
from uuid_utils.compat import uuid7

from tenure.client import submit
from tenure.migrate import migrate
from tenure.model.records import Holder, Initiator
from tenure.store.hot import HotSession
from tests.support.celery_processes import CeleryProcess
from tests.support.databases import Database
from tests.support.servers import OwnServers
from tests.support.until import until
from tests.support.workers import Worker

BEAT = ("celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "INFO")


class Beats:
    """Starts beats on one database; each has a home of its own, as replicas on several hosts have."""

    def __init__(self, home: Path, database_url: str, broker_url: str) -> None:
        self._home, self._database_url, self._broker_url = home, database_url, broker_url
        self.started: list[CeleryProcess] = []

    def start(self, *arguments: str, **environment: str) -> CeleryProcess:
        number = len(self.started) + 1
        urls = {"database_url": environment.pop("database_url", self._database_url), "broker_url": self._broker_url}
        beat = CeleryProcess(arguments or BEAT, home=self._home / f"{number}", name="beat", **urls, **environment)
        self.started.append(beat)
        return beat


@pytest.fixture
def beats(tmp_path: Path, database: Database, broker_url: str) -> Iterator[Beats]:
    made = Beats(tmp_path, database.url, broker_url)
    yield made
    for beat in made.started:
        with beat:
            pass


def claim_and_lose(database: Database, count: int) -> list[UUID]:
    """Tasks held by a worker that is gone, their leases run out."""
    session = HotSession(database.url, Holder(UUID(bytes=uuid7().bytes), os.getpid()), ["probe"], lease_seconds=30)
    with database.engine.begin() as connection:
        ids = [submit(connection, "probe", initiator=Initiator("test", "1", "test")).id for _ in range(count)]
    assert all(session.claim(task_id) for task_id in ids)
    session.close()
    with database.engine.begin() as connection:
        # Taken, as the hint of a claimed task is.
        connection.execute(text("delete from task_hints where task_id = any(:ids)"), {"ids": ids})
        past = "update task_leases set expires = clock_timestamp() - interval '1 s' where task_id = any(:ids)"
        connection.execute(text(past), {"ids": ids})
    return ids


def states(database: Database, ids: list[UUID]) -> list[tuple[str, int]]:
    with database.engine.connect() as connection:
        rows = connection.execute(text("select state, crashes from tasks where id = any(:ids)"), {"ids": ids})
        return [(row[0], row[1]) for row in rows]


def one(database: Database, statement: str) -> object:
    with database.engine.connect() as connection:
        return connection.execute(text(statement)).scalar()


def test_beat_recovers_a_stale_lease_without_any_worker(beats: Beats, database: Database) -> None:
    ids = claim_and_lose(database, 1)
    beats.start()
    until(lambda: states(database, ids) == [("queued", 1)], 20)
    assert one(database, "select count(*) from task_leases") == 0
    assert one(database, "select count(*) from task_hints") == 1


def test_two_beats_recover_each_task_once(beats: Beats, database: Database) -> None:
    for beat in (beats.start(), beats.start()):
        beat.wait_for('"ready"')
    ids = claim_and_lose(database, 250)
    until(lambda: set(states(database, ids)) == {("queued", 1)}, 20)
    assert one(database, "select count(*) from task_attempts where how = 'lost'") == 250
    assert one(database, "select count(*) from task_events where verb = 'recover'") == 250
    assert one(database, "select count(*) from workers where role = 'beat' and ended_at is null") == 2


@pytest.mark.parametrize("services", ["dispatcher", "dispatcher,reaper"], ids=["by beat", "by the worker too"])
def test_stale_leases_are_recovered_while_every_worker_is_busy(
    beats: Beats, database: Database, broker_url: str, services: str
) -> None:
    with Worker(database.url, broker_url, concurrency=1, env={"TENURE_SERVICES": services}) as worker:
        beats.start().wait_for('"ready"')
        worker.wait_ready()
        with database.engine.begin() as connection:
            busy = submit(connection, "probe", {"seconds": 60}, initiator=Initiator("test", "1", "test")).id
        until(lambda: states(database, [busy]) == [("running", 0)], 20)
        ids = claim_and_lose(database, 3)
        until(lambda: states(database, ids) == [("queued", 1)] * 3, 10)
        assert states(database, [busy]) == [("running", 0)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_beat_leaves_with_0_within_2_s_and_says_so(beats: Beats, database: Database, number: signal.Signals) -> None:
    beat = beats.start()
    beat.wait_for('"ready"')
    until(lambda: one(database, "select count(*) from workers where role = 'beat' and ended_at is null") == 1)
    began = time.monotonic()
    beat.send(number)
    assert beat.wait(10) == 0, beat.text()
    assert time.monotonic() - began < 2.0
    assert '"late": [], "died": []' in beat.text().splitlines()[-1]
    assert one(database, "select count(*) from workers where role = 'beat' and ended_at is null") == 0
    assert one(database, f"select count(*) from pg_stat_activity where datname = '{database.name}'") == 1


def test_beat_keeps_its_health_file_and_its_row_fresh(beats: Beats, database: Database) -> None:
    beat = beats.start()
    path = beat.home / "health-beat"
    beat.wait_for('"ready"')
    first = json.loads(until(lambda: path.exists() and path.read_text()))
    seen = until(lambda: one(database, "select last_seen from workers where role = 'beat'"))
    until(lambda: json.loads(path.read_text())["counter"] > first["counter"] + 1, 15)
    assert json.loads(path.read_text())["pid"] == beat.process.pid
    until(lambda: one(database, "select last_seen from workers where role = 'beat'") > seen, 10)


def test_a_wrong_password_is_one_line_and_exit_code_1(beats: Beats, database: Database) -> None:
    wrong = make_url(database.url).set(password="not-the-password").render_as_string(hide_password=False)
    beat = beats.start(database_url=wrong)
    assert beat.wait(20) == 1
    lines = [line for line in beat.text().splitlines() if not line.startswith("{")]
    assert lines == ["tenure: the database refused the user or password: check TENURE_DATABASE_URL"]
    assert "not-the-password" not in beat.text()


def test_a_wrong_setting_is_one_line_and_exit_code_2(beats: Beats) -> None:
    beat = beats.start(TENURE_LEASE_SECONDS="soon")
    assert beat.wait(20) == 2
    assert len(beat.text().splitlines()) == 1
    assert "TENURE_LEASE_SECONDS" in beat.text()


def test_beat_outlives_a_restart_of_the_database_and_needs_no_broker(tmp_path: Path) -> None:
    with OwnServers() as own:
        migrate(own.database_url)
        with CeleryProcess(
            BEAT, home=tmp_path, name="beat", database_url=own.database_url, broker_url=own.broker_url
        ) as beat:
            beat.wait_for('"ready"')
            own.kill_valkey()
            own.kill_postgres()
            beat.wait_for("service_waits", 20)
            own.start_postgres()
            database = Database(None, own.database_url, "tenure")
            ids = claim_and_lose(database, 3)
            until(lambda: states(database, ids) == [("queued", 1)] * 3, 30)
            database.engine.dispose()
            beat.send(signal.SIGTERM)
            assert beat.wait(10) == 0
            assert "Traceback" not in beat.text()


@pytest.mark.skipif(os.environ.get("TENURE_TEST_SCALE") != "full", reason="half a minute: only in make chaos")
def test_beat_leaves_in_time_while_the_database_is_frozen_and_names_what_hung(tmp_path: Path) -> None:
    with OwnServers(valkey=False) as own:
        migrate(own.database_url)
        with CeleryProcess(
            BEAT, home=tmp_path, name="beat", database_url=own.database_url, broker_url="redis://127.0.0.1:1/0"
        ) as beat:
            beat.wait_for('"ready"')
            own.freeze_postgres()
            time.sleep(6)  # every loop has begun another round
            began = time.monotonic()
            beat.send(signal.SIGTERM)
            assert beat.wait(30) == 1
            assert time.monotonic() - began < 25
            assert '"late": ["scheduler", "presence", "reaper"]' in beat.text().splitlines()[-1]
