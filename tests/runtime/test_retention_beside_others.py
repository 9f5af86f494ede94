"""Retention beside workers, submitters and another retention: short statements, exact counts, nothing that runs touched."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2
import pytest
from sqlalchemy import Engine, event, make_url, text

from tenure import client
from tenure.retention import RETENTION
from tenure.retention.pace import LEAST, TARGET, TRIES, Pace
from tenure.store import settings
from tenure_workers.kinds.platform_retention import platform_retention
from tests.runtime.test_platform_retention import count, run, there
from tests.support import aged, tasks
from tests.support.databases import Database
from tests.support.executing import run as execute
from tests.support.tasks import ADA, PLAIN, SUCCEEDED, scale
from tests.support.threads import together
from tests.support.until import until


@contextmanager
def statements() -> Iterator[list[str]]:
    """All that is executed meanwhile, in any thread."""
    seen: list[str] = []

    def executed(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "after_cursor_execute", executed)
    try:
        yield seen
    finally:
        event.remove(Engine, "after_cursor_execute", executed)


def slow_statements(database: Database, log: Path, after: int) -> list[str]:
    """What the server wrote down as slower than a quarter of a second, by its own clock."""
    written = log.read_bytes()[after:].decode(errors="replace")
    return [line for line in written.splitlines() if "duration:" in line]


def test_no_statement_takes_a_quarter_of_a_second(database: Database) -> None:
    number = scale(60_000, 12_000)
    aged.ended(database, number, days=400)
    directory = tasks.value(database, "show data_directory")
    postmaster = Path(directory, "postmaster.pid").read_text().split()[0]
    log = Path(f"/proc/{postmaster}/fd/2").resolve()
    tasks.run_sql(database, f'alter database "{database.name}" set log_min_duration_statement = 250')
    try:
        after = log.stat().st_size
        assert run(database)["rows"] == {"tasks": number, "activities": number}
        assert slow_statements(database, log, after) == []
        with psycopg2.connect(make_url(database.url).set(drivername="postgresql").render_as_string(False)) as measured:
            measured.cursor().execute("select pg_sleep(0.26)")
        assert len(slow_statements(database, log, after)) == 1, "the measure itself"
    finally:
        tasks.run_sql(database, f'alter database "{database.name}" reset log_min_duration_statement')


def test_a_batch_that_the_server_ends_is_tried_again_with_fewer_rows(database: Database) -> None:
    ids = aged.ended(database, 600, days=100)
    # Whoever wants more than 100 rows at once waits too long for one of them.
    tasks.run_sql(
        database,
        """create function slow() returns trigger language plpgsql as $$
        begin perform pg_sleep(0.002); return old; end $$;
        create trigger slow before delete on tasks for each row execute function slow()""",
    )
    try:
        with statements() as seen:
            assert run(database)["rows"] == {"tasks": 600}
    finally:
        tasks.run_sql(database, "drop function slow() cascade")
    assert there(database, *ids) == set()
    assert len([statement for statement in seen if "delete from tasks" in statement]) > 5


def test_the_size_of_a_batch_follows_what_the_last_one_took() -> None:
    pace = Pace(1000)
    pace.took(TARGET / 10, 1000)
    assert pace.rows == 2000
    pace.took(TARGET * 2, 2000)
    assert pace.rows == 1000
    pace.took(5.0, 3)
    assert pace.rows == 1000, "a short last batch says nothing"
    pace.took(TARGET * 100, 1000)
    assert pace.rows == 250
    assert all(pace.too_long() for _ in range(TRIES))
    assert pace.rows == LEAST
    assert not all(pace.too_long() for _ in range(TRIES))


def test_two_retentions_at_once_delete_each_row_once_and_wait_for_nobody(database: Database) -> None:
    number = scale(12_000, 3_000)
    ids = aged.ended(database, number, days=400)
    tasks.run_sql(
        database, "insert into adopted_ids select gen_random_uuid(), '2020-01-01' from generate_series(1, 2000)"
    )
    both = [tasks.submit(database, RETENTION) for _ in range(2)]
    together(*(lambda task_id=one: execute(database, task_id, platform_retention) for one in both))
    results = [tasks.task(database, one)["result"]["rows"] for one in both]
    assert count(database, "adopted_ids") == 0
    assert sum(rows.get("adopted_ids", 0) for rows in results) == 2000
    # What one had in hand the other has passed over, and with it the activity of that task.
    results.append(run(database)["rows"])
    assert sum(rows.get("tasks", 0) for rows in results) == number
    assert sum(rows.get("activities", 0) for rows in results) == number
    assert there(database, *ids) == there(database, *ids, table="activities") == set()


def test_tasks_that_are_submitted_claimed_and_ended_meanwhile_are_touched_only_when_they_have_ended(
    database: Database,
) -> None:
    aged.keep(database, settings.KEEP_TASKS, 1e-9)
    aged.keep(database, settings.KEEP_ACTIVITIES, 1e-9)
    stop, rounds, open_ids = threading.Event(), scale(400, 60), set[UUID]()

    def work() -> int:
        done = 0
        try:
            with tasks.worker(database) as session, database.engine.connect() as connection:
                for number in range(rounds):
                    with connection.begin():
                        task_id = client.submit(connection, PLAIN, {}, initiator=ADA).id
                        waiting = client.submit(connection, PLAIN, {}, initiator=ADA).id
                    open_ids.add(waiting)
                    claimed = tasks.claimed(session, task_id)
                    with connection.begin():
                        assert tasks.checkpoint(connection, claimed.lease)
                    if number % 3:
                        assert tasks.ends(session, claimed.lease, SUCCEEDED)
                        done += 1
                    else:
                        open_ids.add(task_id)
        finally:
            stop.set()
        return done

    def purge() -> int:
        gone = 0
        while not stop.is_set():
            gone += run(database)["rows"].get("tasks", 0)
        return gone

    ended, gone = together(work, purge)
    gone += run(database)["rows"].get("tasks", 0)
    assert there(database, *open_ids) == there(database, *open_ids, table="activities") == open_ids
    assert count(database, "tasks", "finished_at is not null and kind = 'store.plain'") == 0
    assert gone >= ended == rounds - len(range(0, rounds, 3))


def test_a_holder_that_lost_its_lease_deletes_nothing_more_and_the_next_run_goes_on(database: Database) -> None:
    number = 5_000
    aged.ended(database, number, days=100)
    tasks.run_sql(
        database,
        """create function slow() returns trigger language plpgsql as $$
        begin perform pg_sleep(0.0005); return old; end $$;
        create trigger slow before delete on tasks for each row execute function slow()""",
    )
    task_id = tasks.submit(database, RETENTION)
    thread = threading.Thread(target=execute, args=(database, task_id, platform_retention))
    thread.start()
    try:
        until(lambda: tasks.value(database, "select processed from task_checkpoints where task_id = :id", id=task_id))
        # Nobody renews in this test: the lease is taken away, as recovery would.
        tasks.expire_lease(database, task_id)
    finally:
        thread.join(30)
        tasks.run_sql(database, "drop function slow() cascade")
    left = count(database, "tasks", "kind = 'aged'")
    counted = tasks.value(database, "select processed from task_checkpoints where task_id = :id", id=task_id)
    assert 0 < counted < number
    assert left == number - counted, "what was deleted without its checkpoint, or counted without being deleted"
    assert run(database)["rows"]["tasks"] == left


@pytest.fixture
def database(database: Database) -> Database:
    """The shared one; these tests make no months."""
    with database.engine.begin() as connection:
        connection.execute(text("analyze tasks, activities"))
    return database
