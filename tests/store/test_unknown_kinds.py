"""A task of a kind that no worker has known for days fails with that as its reason; it never waits in silence for ever."""

from uuid import UUID

import pytest

from tenure.store.transitions import due
from tests.support import tasks
from tests.support.databases import Database

DAYS = 7.0


def worker(database: Database, *kinds: str, seen: str = "0 s", ended: bool = False) -> None:
    tasks.run_sql(
        database,
        """insert into workers (boot_id, node, role, pid, version, kinds, last_seen, ended_at) values (uuidv7(), 'here', 'worker',
           1, '1', :kinds, clock_timestamp() - cast(:seen as interval), case when :ended then clock_timestamp() end)""",
        kinds=list(kinds),
        seen=seen,
        ended=ended,
    )


def old(database: Database, spec: tasks.KindSpec = tasks.ONCE) -> UUID:
    task_id = tasks.submit(database, spec)
    tasks.run_sql(
        database, "update tasks set available_at = clock_timestamp() - interval '8 days' where id = :id", id=task_id
    )
    return task_id


def expired(database: Database) -> list[UUID]:
    with database.engine.begin() as connection:
        return due.expire_unknown(connection, days=DAYS)


def test_it_fails_with_a_reason_and_so_does_its_activity(database: Database) -> None:
    worker(database, tasks.PLAIN.name)
    unknown, _known, _young = old(database), old(database, tasks.PLAIN), tasks.submit(database, tasks.ONCE)
    assert expired(database) == [unknown]
    assert expired(database) == []
    row = tasks.value(
        database,
        """select array[k.state, k.outcome, k.error_code, a.status, a.message, a.executed_at::text]
           from tasks k join activities a on a.id = k.activity_id where k.id = :id""",
        id=unknown,
    )
    said = "no worker has known its kind for days"
    assert row == ["failed", "rejected", "unknown_kind", "failed", said, None]
    assert tasks.value(database, "select count(*) from task_hints where task_id = :id", id=unknown) == 0


@pytest.mark.parametrize(("seen", "ended"), [("0 s", False), ("20 hours", True), ("20 hours", False)])
def test_a_worker_that_knew_it_a_day_ago_may_come_back(database: Database, seen: str, ended: bool) -> None:
    worker(database)
    worker(database, tasks.ONCE.name, seen=seen, ended=ended)
    old(database)
    assert expired(database) == []


@pytest.mark.parametrize(("seen", "ended"), [("2 minutes", False), ("0 s", True)])
def test_while_no_worker_lives_nothing_is_unknown(database: Database, seen: str, ended: bool) -> None:
    worker(database, tasks.PLAIN.name, seen=seen, ended=ended)
    old(database)
    assert expired(database) == []
