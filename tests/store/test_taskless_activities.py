"""Activities without a task: started, filled and ended in the caller's transaction, by the rules of all others."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from tenure import activities
from tenure.activities import Target
from tenure.model.errors import Refused, UsageError
from tenure.model.initiators import SYSTEM
from tenure.model.items import Item
from tenure.model.records import Initiator
from tenure.store.hot import HotSession
from tenure.store.transitions import activities as ending
from tests.support import tasks
from tests.support.databases import Database

GOOD, BAD = Item("deleted", "city", "1"), Item("deleted", "city", "2", error="Referenced", message="still in use")
BUG = Item("deleted", "city", "3", error="KeyError", unhandled=True)
TARGET = Target("cities", "17", "All cities")


def begin(connection: Any, **options: Any) -> UUID:
    return activities.start(connection, **{"initiator": tasks.ADA, "target": TARGET, **options})


def row(database: Database, one: UUID, *columns: str) -> list[Any]:
    with database.engine.connect() as connection:
        return list(
            connection.execute(text(f"select {', '.join(columns)} from activities where id = :id"), {"id": one}).one()
        )


@pytest.mark.parametrize(
    ("items", "counted", "warned", "status"),
    [
        ([BAD, BUG], 0, True, "failed"),
        ([GOOD, BUG, BAD], 0, True, "complete_with_error"),
        ([GOOD, BAD], 0, False, "complete_with_warning"),
        ([BAD], 1, False, "complete_with_warning"),
        ([GOOD], 0, True, "complete_with_warning"),
        ([], 0, True, "complete_with_warning"),
        ([GOOD], 0, False, "complete"),
        ([], 5, False, "complete"),
        ([], 0, False, "complete"),
    ],
)
def test_it_ends_by_the_same_table(
    database: Database, items: list[Item], counted: int, warned: bool, status: str
) -> None:
    with Session(database.engine) as session, session.begin():
        one = begin(session)
        if warned:
            activities.warn(session, one, "slow")
        assert activities.record(session, one, items) == len(items)
        activities.count(session, one, unchanged=counted)
        assert activities.end(session, one, actor="housekeeping") == (status, True)
    found = row(database, one, "status", "actor", "target_type", "target_id", "target_name", "message")
    assert found[:5] == [status, "housekeeping", "cities", "17", "All cities"]
    assert found[5] == ("all 2 items failed" if status == "failed" else None)


def test_rolled_back_it_never_was(database: Database) -> None:
    with database.engine.connect() as connection, connection.begin() as transaction:
        one = begin(connection)
        activities.record(connection, one, [GOOD])
        transaction.rollback()
    assert (
        tasks.value(database, "select (select count(*) from activities) + (select count(*) from activity_items)") == 0
    )


def test_an_exception_is_kept_by_class_and_place(database: Database) -> None:
    with pytest.raises(LookupError) as raised:
        raise LookupError("a secret")
    with database.engine.begin() as connection:
        one = begin(connection)
        assert activities.fail(connection, one, raised.value) == ("failed", True)
    message, stack = row(database, one, "message", "stack")
    assert message.startswith("unexpected LookupError in test_an_exception_is_kept_by_class_and_place")
    assert stack.startswith("LookupError\ntest_taskless_activities.py:")
    assert "secret" not in message + stack


def test_one_given_to_a_task_ends_with_it_by_the_items_of_both(database: Database, session: HotSession) -> None:
    with database.engine.begin() as connection:
        one = begin(connection)
        activities.record(connection, one, [GOOD])
    task = tasks.submit(database, activity=one)
    claimed = tasks.claimed(session, task)
    with database.engine.begin() as connection, pytest.raises(Refused, match="it ends with the last of them"):
        activities.end(connection, one)
    with database.engine.begin() as connection:
        activities.record(connection, one, [BUG])
    assert tasks.ends(session, claimed.lease, tasks.SUCCEEDED)
    assert row(database, one, "status") == ["complete_with_error"]
    with database.engine.begin() as connection:
        assert activities.end(connection, one) == ("complete_with_error", False)


def test_what_does_not_exist_cannot_end(database: Database) -> None:
    with database.engine.begin() as connection:
        for act in (activities.end, lambda c, i: activities.warn(c, i, "odd")):
            with pytest.raises(Refused, match="no activity"):
                act(connection, uuid4())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"initiator": Initiator("user", "", "ada")}, "a user needs an id"),
        ({"initiator": Initiator("", "", "")}, "type is one of"),
        ({"target": Target("")}, "target type is 0 bytes"),
        ({"target": Target("city", name="n" * 256)}, "target name is 256 bytes"),
        ({"within": timedelta(0)}, "within"),
        ({"context": "a\0"}, "context holds a NUL"),
    ],
)
def test_one_that_cannot_be_is_refused_by_name(database: Database, options: dict[str, Any], said: str) -> None:
    with database.engine.begin() as connection, pytest.raises(UsageError, match=said):
        begin(connection, **options)


def test_one_that_nobody_ended_in_time_is_ended_as_failed(database: Database) -> None:
    with database.engine.begin() as connection:
        lost, young = begin(connection), begin(connection)
        ended = begin(connection)
        activities.end(connection, ended)
    of_a_task = tasks.submit(database, activity=(held := _start(database)))
    tasks.run_sql(
        database, "update activities set expires_at = clock_timestamp() where id = any(:ids)", ids=[lost, held, ended]
    )
    with database.engine.begin() as connection:
        assert [one for one, failed in ending.expire(connection) if failed] == [lost]
        assert ending.expire(connection) == []
    assert row(database, lost, "status", "message") == ["failed", "whoever had it in hand did not end it in time"]
    assert [row(database, one, "status")[0] for one in (young, held, ended)] == [
        "in_progress",
        "in_progress",
        "complete",
    ]
    tasks.cancel(database, of_a_task)
    assert row(database, held, "status") == ["cancelled"]


def _start(database: Database) -> UUID:
    with database.engine.begin() as connection:
        return begin(connection)


def test_a_block_is_recorded_from_its_start_to_its_end(database: Database) -> None:
    with activities.recorded(database.engine, initiator=SYSTEM, target=TARGET) as one:
        assert row(database, one, "status") == ["in_progress"]
        with database.engine.begin() as connection:
            activities.record(connection, one, [GOOD, BAD])
    assert row(database, one, "status") == ["complete_with_warning"]


def test_a_block_that_raises_is_recorded_as_failed(database: Database) -> None:
    made: list[UUID] = []
    with pytest.raises(LookupError):
        block(database, made.append)
    assert row(database, made[0], "status") == ["failed"]


def block(database: Database, entered: Callable[[UUID], None]) -> None:
    """A block that fails."""
    with activities.recorded(database.engine, initiator=SYSTEM, target=TARGET) as one:
        entered(one)
        raise LookupError("a secret")


def test_a_block_whose_sessions_are_killed_is_recorded_over_a_fresh_one(make_database: Callable[[], Database]) -> None:
    database = make_database()

    def kill(*_: object) -> None:
        tasks.value(
            database,
            """select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()""",
        )

    made: list[UUID] = []
    with pytest.raises(LookupError):
        block(database, lambda one: (made.append(one), kill())[1])
    with activities.recorded(database.engine, initiator=SYSTEM, target=TARGET) as one:
        made.append(one)
        kill()
    assert [row(database, one, "status")[0] for one in made] == ["failed", "complete"]


def test_a_block_left_with_tasks_at_work_is_theirs_to_end(database: Database) -> None:
    with capture_logs() as logs, activities.recorded(database.engine, initiator=SYSTEM, target=TARGET) as one:
        task = tasks.submit(database, activity=one)
    assert row(database, one, "status") == ["in_progress"]
    tasks.cancel(database, task)
    assert row(database, one, "status") == ["cancelled"]
    assert not logs
