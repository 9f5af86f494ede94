"""A worker's row: written without waiting for whoever has locked it, made again when it is gone."""

import os
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tenure.runtime.worker_row import PACE, WorkerRow
from tenure.store.workers import Boot, ended, register, seen
from tests.support.databases import Database
from tests.support.tasks import run_sql, value


@pytest.fixture
def boot(database: Database) -> UUID:
    made = Boot(uuid4(), "row@test", "worker", os.getpid(), "0", 2, ["default"], ["probe"])
    with database.engine.begin() as connection:
        register(connection, made)
    return made.boot_id


def test_seen_writes_time_and_work(database: Database, boot: UUID) -> None:
    run_sql(database, "update workers set last_seen = clock_timestamp() - interval '1 minute'")
    with database.engine.begin() as connection:
        assert seen(connection, boot, "2 running")
    assert value(database, "select last_seen > clock_timestamp() - interval '5 s' from workers")
    assert value(database, "select work from workers") == "2 running"


def test_a_locked_row_is_skipped_not_waited_for(database: Database, boot: UUID) -> None:
    before = value(database, "select last_seen from workers")
    with database.engine.begin() as holder, database.engine.begin() as connection:
        holder.execute(text("select 1 from workers for update"))
        connection.execute(text("set local lock_timeout = '100ms'"))
        assert seen(connection, boot), "it is there, only not ours to write now"
    assert value(database, "select last_seen from workers") == before


@pytest.mark.parametrize("gone", ["delete from workers", "update workers set ended_at = clock_timestamp()"])
def test_a_row_that_is_gone_or_ended_is_told(database: Database, boot: UUID, gone: str) -> None:
    assert run_sql(database, gone) == 1
    with database.engine.begin() as connection:
        assert not seen(connection, boot)


def test_an_ended_row_shows_no_work(database: Database, boot: UUID) -> None:
    with database.engine.begin() as connection:
        seen(connection, boot, "2 running")
        ended(connection, boot)
    assert value(database, "select work is null and ended_at is not null from workers")


def test_a_process_writes_its_row_at_most_every_5_s(database: Database, boot: UUID) -> None:
    row = WorkerRow(Boot(boot, "row@test", "worker", os.getpid(), "0", 2, [], []))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        row.write(connection, "first")
        row.write(connection, "second")
    assert PACE == 5.0
    assert value(database, "select work from workers") == "first"
