"""An activity is made in the transaction that makes its task, however that came, and outlives all it tells of."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import Connection, text

from tenure import client, executions, schedules
from tenure.adoption import Request, adopt
from tenure.model.kinds import KindSpec
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database

INTERNAL = KindSpec("store.internal", internal="domain.do()")
ROWS = """select k.id, k.kind, a.xmin::text = k.xmin::text as together, a.task_id, a.target_type, a.target_name, a.initiator_name
    from tasks k left join activities a on a.id = k.activity_id"""


def _adopted(connection: Connection) -> None:
    adopt(connection, tasks.PLAIN, Request(uuid4(), tasks.ADA, {}))


def _rejected(connection: Connection) -> None:
    adopt(connection, tasks.PLAIN, Request(uuid4(), tasks.ADA, {}, refusal="it cannot be"))


def _retried(connection: Connection) -> None:
    made = client.submit(connection, tasks.PLAIN, initiator=tasks.ADA)
    client.cancel(connection, made.id, initiator=tasks.ADA)
    client.create(connection, tasks.PLAIN, {}, initiator=tasks.ADA, retry_of=made.id)


def _scheduled(connection: Connection) -> None:
    schedules.add(connection, made.spec("nightly", "step.ok", "step.fails"), initiator=tasks.ADA)
    executions.run_now(connection, "nightly", initiator=tasks.ADA)


WAYS: dict[str, Callable[[Connection], object]] = {
    "submit": lambda c: client.submit(c, tasks.PLAIN, initiator=tasks.ADA),
    "a scheduled task": lambda c: client.submit(
        c, tasks.PLAIN, initiator=tasks.ADA, at=datetime(2100, 1, 1, tzinfo=UTC)
    ),
    "submit_many": lambda c: client.submit_many(c, tasks.PLAIN, [{}, {}], initiator=tasks.ADA),
    "a domain's own": lambda c: client.create(c, INTERNAL, initiator=tasks.ADA),
    "an adopted message": _adopted,
    "a message that cannot be run": _rejected,
    "a retry": _retried,
    "steps of a schedule": _scheduled,
}


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


@pytest.mark.parametrize("way", WAYS)
def test_they_are_made_together_and_rolled_back_together(database: Database, way: str) -> None:
    with database.engine.connect() as connection, connection.begin() as transaction:
        WAYS[way](connection)
        rows = connection.execute(text(ROWS)).all()
        assert rows
        for row in rows:
            assert row.together
            assert (row.task_id, row.target_type, row.target_name, row.initiator_name) == (
                row.id,
                "task",
                row.kind,
                "ada",
            )
        transaction.rollback()
    assert tasks.value(database, "select (select count(*) from tasks) + (select count(*) from activities)") == 0


@pytest.mark.parametrize("way", WAYS)
def test_it_outlives_its_task(database: Database, way: str) -> None:
    with database.engine.begin() as connection:
        WAYS[way](connection)
        before = connection.execute(text("select id, target_name, initiator_name, initiator_id from activities")).all()
    for table in ("task_params", "task_hints", "tasks", "executions", "schedules"):
        tasks.run_sql(database, f"delete from {table}")
    with database.engine.connect() as connection:
        after = connection.execute(text("select id, target_name, initiator_name, initiator_id from activities")).all()
    assert before == after
    assert before
