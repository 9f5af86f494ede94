"""One database for all store tests, emptied before each: a clone per test would cost more than the tests."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tenure.store.hot import HotSession
from tests.support.databases import Database, Databases
from tests.support.snapshots import wipe
from tests.support.tasks import worker

# A year of partitions costs planning time in every statement on history, and these tests see only today.
_FAR_AWAY = text("""select inhrelid::regclass::text from pg_inherits join pg_class c on c.oid = inhrelid
    where c.relkind = 'r' and right(c.relname, 6) > to_char(clock_timestamp() + interval '32 days', 'YYYYMM')""")


@pytest.fixture(scope="session")
def store_database(databases: Databases) -> Iterator[Database]:
    made = databases.create()
    with made.engine.begin() as connection:
        for partition in connection.execute(_FAR_AWAY).scalars().all():
            connection.execute(text(f'drop table "{partition}"'))
    yield made
    made.drop()


@pytest.fixture
def database(store_database: Database) -> Database:
    wipe(store_database)
    return store_database


@pytest.fixture(scope="session")
def session(store_database: Database) -> Iterator[HotSession]:
    """A child's session; what it claims is wiped away before the next test."""
    with worker(store_database) as made:
        yield made


@pytest.fixture(scope="session")
def other(store_database: Database) -> Iterator[HotSession]:
    """A second child's session, of another worker."""
    with worker(store_database) as made:
        yield made
