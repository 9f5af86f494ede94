"""The declared tables are the migrated ones."""

from collections.abc import Callable

import pytest
from sqlalchemy import Table, inspect
from sqlalchemy.dialects import postgresql

from tenure.store.tables import metadata
from tests.support.databases import Database

DIALECT = postgresql.dialect()
TABLES = metadata.sorted_tables


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_a_declared_table_equals_the_migrated_one(database: Database, table: Table) -> None:
    found = {column["name"]: column for column in inspect(database.engine).get_columns(table.name)}
    declared = {column.name: column.type.compile(DIALECT) for column in table.columns}
    assert declared == {name: column["type"].compile(DIALECT) for name, column in found.items()}
    for column in table.primary_key.columns:
        assert not found[column.name]["nullable"]


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_a_declared_key_is_the_migrated_one(database: Database, table: Table) -> None:
    key = inspect(database.engine).get_pk_constraint(table.name)["constrained_columns"]
    # Partitioned history has the time in its key as well, because the partitions go by it.
    assert [column.name for column in table.primary_key.columns] == [name for name in key if name != "created_at"]


def test_history_is_partitioned_a_year_ahead_and_has_no_default(make_database: Callable[[], Database]) -> None:
    fresh = make_database()
    for parent in ("task_attempts", "task_events", "activity_items"):
        parts = _partitions(fresh, parent)
        assert len(parts) == 14, "the month before, this one, and 12 ahead"
        assert not any("DEFAULT" in bound for bound in parts)


def _partitions(database: Database, parent: str) -> list[str]:
    query = """select pg_get_expr(c.relpartbound, c.oid) from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = cast(%s as regclass) and c.relkind = 'r'"""
    with database.engine.connect() as connection:
        return list(connection.exec_driver_sql(query, (parent,)).scalars())


def test_partitions_are_made_once(make_database: Callable[[], Database]) -> None:
    fresh = make_database()
    with fresh.engine.begin() as connection:
        assert connection.exec_driver_sql("select make_history_partitions(12)").scalar() == 0
        assert connection.exec_driver_sql("select make_history_partitions(13)").scalar() == 3
