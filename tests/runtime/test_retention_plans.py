"""What a page of retention costs does not depend on how much is in the tables: no statement walks one of them whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import TextClause, text

from tenure.store.retention import activities, executions, history, tasks, tombstones
from tenure_records.retention import pages
from tests.support import aged
from tests.support.databases import Database, Databases
from tests.support.tasks import run_sql

ROWS = 20_000
BEFORE = {
    "before": "2026-01-01",
    "tasks": "2026-01-01",
    "at": "-infinity",
    "id": "00000000-0000-0000-0000-000000000000",
    "rows": 500,
}
OBJECTS = {
    "class_id": 1,
    "newest_from": 9,
    "kept": 5,
    "after": 0,
    "rows": 500,
    "below": 10**9,
    "schema_id": 1,
    "object_id": 0,
}
STATEMENTS: dict[str, tuple[TextClause, dict[str, Any]]] = {
    "tasks": (tasks._page(False, ()), BEFORE),
    "tasks, dry": (tasks._page(True, ()), BEFORE),
    "executions": (executions._page(False, ()), BEFORE),
    "activities": (activities._page(False, ()), BEFORE),
    "activities, dry": (activities._page(True, ()), BEFORE),
    "tombstones": (tombstones._page(False), BEFORE),
    "objects": (pages._DELETE, OBJECTS),
    "objects, dry": (pages._COUNT, OBJECTS),
    "newest objects": (pages._NEWEST, OBJECTS),
    "evidence": (pages._DELETE_EVIDENCE, OBJECTS),
}
LARGE = ("tasks", "activities", "adopted_ids", "record_objects", "schema_evidence", "activity_items")


@pytest.fixture(scope="module")
def large(module_database: Database) -> Database:
    aged.ended(module_database, ROWS, days=10)
    for statement in (
        f"insert into adopted_ids select gen_random_uuid(), clock_timestamp() from generate_series(1, {ROWS})",
        "insert into record_classes (name) values ('city')",
        f"insert into record_objects (class_id, key, data) select (select max(id) from record_classes), 'k' || n, '{{}}' from generate_series(1, {ROWS}) n",
        f"insert into schema_evidence (schema_id, object_id, change_seq, verdict) select n % 20, n, n, 'valid' from generate_series(1, {ROWS}) n",
    ):
        run_sql(module_database, statement)
    with module_database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))
    return module_database


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_page_walks_no_table_whole(large: Database, name: str) -> None:
    statement, values = STATEMENTS[name]
    assert _whole(large, statement, values) == []


def test_a_page_of_history_walks_nothing_whole(large: Database) -> None:
    partition = aged.history(large, "task_events", ROWS, days=1)
    items = aged.items(large, aged.ended(large, 1, days=1)[0], ROWS, days=1)
    run_sql(large, f"analyze {partition}, {items}")
    for parent, name in (("task_events", partition), ("activity_items", items)):
        assert _whole(large, history._page(parent, name, False, ()), BEFORE) == []


@pytest.fixture(scope="module")
def empty(databases: Databases) -> Iterator[Database]:
    made = databases.create()
    with made.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))
    yield made
    made.drop()


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_page_is_as_cheap_with_statistics_of_an_empty_table(empty: Database, name: str) -> None:
    statement, values = STATEMENTS[name]
    with empty.engine.connect() as connection:
        connection.execute(text("set local enable_seqscan = off"))
        plan = "\n".join(connection.execute(text(f"explain {statement.text}"), values).scalars())
    assert "hashed" not in plan.replace("NOT (ANY (place = (hashed", "")
    assert "Seq Scan" not in plan
    assert "Tid Scan" in plan or "free" not in statement.text


def _whole(database: Database, statement: TextClause, values: dict[str, Any]) -> list[str]:
    """The lines of its plan that read a large table from end to end."""
    with database.engine.connect() as connection:
        plan = connection.execute(text(f"explain {statement.text}"), values).scalars().all()
    scans = [line.strip() for line in plan if "Seq Scan on" in line]
    return [
        line
        for line in scans
        if any(f" on {table} " in f"{line} " or f" on {table}_2" in line for table in (*LARGE, "task_events"))
    ]
