"""A database per module, emptied before each test; executors of one test, closed with it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from tenure.model.kinds import Kind
from tests.support.databases import Database, Databases
from tests.support.slot import Bench

# Deleting from a few small tables is faster than truncating all partitions, and far faster than a new database.
_TABLES = """select format('delete from %I', relname) from pg_class where relkind in ('r', 'p') and not relispartition
    and relnamespace = 'public'::regnamespace and relname <> 'alembic_version' order by relname = 'tasks'"""


@pytest.fixture(scope="module")
def module_database(databases: Databases) -> Iterator[Database]:
    made = databases.create()
    yield made
    made.drop()


@pytest.fixture
def database(module_database: Database) -> Database:
    with module_database.engine.begin() as connection:
        for statement in list(connection.execute(text(_TABLES)).scalars()):
            connection.execute(text(statement))
    return module_database


@pytest.fixture
def make_bench(database: Database) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*kinds: Kind, **options: Any) -> Bench:
        made.append(Bench(database, *kinds, **options))
        return made[-1]

    yield make
    for bench in made:
        bench.close()
