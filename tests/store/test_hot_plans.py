"""The prepared statements go through indexes, whatever the statistics said when they were planned."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from tenure.store.hot import HotSession, RunOn
from tests.support import tasks
from tests.support.databases import Database

BACKLOG = 20_000
HOT = ("tasks", "task_hints", "task_leases")
# Found by these; anything else would read more rows than it takes.
INDEXES = {
    "tasks": {"tasks_pkey", "tasks_shared_activity"},
    "task_leases": {"task_leases_pkey", "task_leases_token", "task_leases_worker"},
    "task_hints": {"task_hints_pkey", "task_hints_pick", "task_hints_task"},
}

_FILL = (
    """insert into tasks (id, kind, queue, state, request_hash, initiator_type, initiator_id, initiator_name,
           available_at, activity_id)
       select uuidv7(), 'store.plain', 'default', 'queued', sha256('x'), 'user', '1', 'ada', clock_timestamp(), uuidv7()
       from generate_series(1, :count)""",
    "insert into task_hints (task_id, kind, queue, priority) select id, kind, queue, priority from tasks where state = 'queued'",
    "analyze",
)


@pytest.fixture(scope="module")
def analysed_empty(databases: Any) -> Iterator[Database]:
    made = databases.create()
    with made.engine.begin() as connection:
        connection.execute(text("analyze"))
    yield made
    made.drop()


@pytest.fixture(scope="module")
def backlog(databases: Any) -> Iterator[Database]:
    made = databases.create()
    with made.engine.begin() as connection:
        for statement in _FILL:
            connection.execute(text(statement), {"count": BACKLOG} if ":count" in statement else {})
    yield made
    made.drop()


def plans(session: HotSession) -> dict[str, Any]:
    """The generic plan of every prepared statement, by name."""
    with session.driver.cursor() as cursor:
        cursor.execute("select name, parameter_types::text[] from pg_prepared_statements where name like 'tenure_%'")
        found = {}
        for name, types in cursor.fetchall():
            given = ", ".join(f"null::{one}" for one in types)
            cursor.execute(f"explain (format json) execute {name}({given})")
            (plan,) = cursor.fetchone()
            found[name] = plan if isinstance(plan, list) else json.loads(plan)
    return found


def scans(node: Any) -> Iterator[tuple[str, str, str | None]]:
    """(table, how, index) of every node that reads one of the hot tables."""
    if isinstance(node, list):
        for part in node:
            yield from scans(part)
    elif isinstance(node, dict):
        if node.get("Relation Name") in HOT and "Scan" in node["Node Type"]:
            yield node["Relation Name"], node["Node Type"], node.get("Index Name")
        for part in node.values():
            yield from scans(part)


@pytest.mark.parametrize("filled", ["analysed_empty", "backlog"])
def test_every_hot_statement_reads_by_index(filled: str, request: pytest.FixtureRequest) -> None:
    with tasks.worker(request.getfixturevalue(filled)) as session:
        found = plans(session)
    assert len(found) >= 8
    for name, plan in found.items():
        for table, how, index in scans(plan):
            assert how in ("Index Scan", "Index Only Scan"), f"{name}: {how} on {table}"
            assert index in INDEXES[table], f"{name}: {index} on {table}"


@pytest.mark.parametrize("filled", ["analysed_empty", "backlog"])
def test_the_next_hint_is_picked_in_order_without_sorting(filled: str, request: pytest.FixtureRequest) -> None:
    with tasks.worker(request.getfixturevalue(filled)) as session:
        found = plans(session)
    for name in ("tenure_claim_next", "tenure_finish_claim"):
        assert ("task_hints", "Index Scan", "task_hints_pick") in set(scans(found[name]))
        assert '"Sort"' not in json.dumps(found[name])


def test_a_plan_made_on_empty_tables_serves_a_backlog(make_database: Callable[[], Database]) -> None:
    """Nothing is analysed in between: the session keeps the plan it made when there was nothing to read."""
    database = make_database()
    with tasks.worker(database) as session:
        lease = tasks.claimed(session, tasks.submit(database)).lease
        session.end([lease], tasks.SUCCEEDED, run_on=RunOn("default", [tasks.PLAIN.name]))
        with database.engine.begin() as connection:
            for statement in _FILL[:-1]:
                connection.execute(text(statement), {"count": BACKLOG} if ":count" in statement else {})
        for name, plan in plans(session).items():
            assert {index for table, _, index in scans(plan) if table == "tasks"} <= INDEXES["tasks"], name
        assert session.claim_next(RunOn("default", [tasks.PLAIN.name]))
