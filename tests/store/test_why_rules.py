"""`why` names the rule that holds a task back, with its numbers and with the tasks that are in the way."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure import client
from tenure.model.kinds import KindSpec
from tenure.store import hints, limits
from tenure.store.hot import HotSession, RunOn
from tests.store.test_rules import end, limit, message
from tests.store.test_why import worker
from tests.support import tasks
from tests.support.databases import Database
from tests.support.tasks import KINDS, PLAIN


@pytest.fixture(autouse=True)
def _a_worker(database: Database) -> None:
    with database.engine.begin() as connection:
        worker(connection, kinds=[spec.name for spec in KINDS], queues=["default"])


def why(database: Database, task_id: UUID) -> dict[str, Any]:
    with database.engine.begin() as connection:
        return client.why(connection, task_id)


def only(database: Database, task_id: UUID) -> tuple[str, str]:
    """The one reason there is."""
    answer = why(database, task_id)
    (reason,) = answer["reasons"]
    return reason["code"], reason["text"]


@pytest.mark.parametrize(
    ("what", "name", "code", "of"),
    [
        ("global", "", "global_limit", "all tasks together"),
        ("kind", PLAIN.name, "kind_limit", f"kind {PLAIN.name}"),
        ("scope", "ldap", "scope_limit", "scope ldap"),
        ("each scope", PLAIN.name, "scope_limit", "scope ldap"),
    ],
)
def test_a_full_limit_is_named_with_how_many_run(
    database: Database, session: HotSession, what: str, name: str, code: str, of: str
) -> None:
    limit(database, what, name, 2)
    first, second, third = (tasks.submit(database, scope="ldap") for _ in range(3))
    assert why(database, third)["claimable"] is True
    assert message(database, session, first)
    assert message(database, session, second)
    assert why(database, third)["claimable"] is False
    assert only(database, third) == (code, f"the limit of {of} is reached: 2 of 2 run (set by ada)")
    end(session, first)
    assert why(database, third)["limits"][0] == {"what": what, "name": name, "most": 2, "set_by": "ada", "running": 1}
    assert only(database, third)[0] == "next"


def test_a_declared_limit_is_said_to_be_the_kinds(database: Database, session: HotSession) -> None:
    with database.engine.begin() as connection:
        limits.declare(connection, [KindSpec(PLAIN.name, limit=1)])
    first, second = tasks.submit(database), tasks.submit(database)
    assert message(database, session, first)
    assert "1 of 1 run (declared by the kind)" in only(database, second)[1]


def test_every_limit_that_is_full_is_named(database: Database, session: HotSession) -> None:
    limit(database, "global", "", 1)
    limit(database, "kind", PLAIN.name, 1)
    limit(database, "scope", "ldap", 2)
    first, second = tasks.submit(database, scope="ldap"), tasks.submit(database, scope="ldap")
    assert message(database, session, first)
    assert [reason["code"] for reason in why(database, second)["reasons"]] == ["global_limit", "kind_limit"]


def test_the_task_that_runs_alone_is_named(database: Database, session: HotSession) -> None:
    alone, other = tasks.submit(database, exclusive=True, scope="ldap"), tasks.submit(database, scope="ldap")
    assert message(database, session, alone)
    code, said = only(database, other)
    assert code == "exclusive_running"
    assert str(alone) in said


def test_who_may_not_run_beside_others_is_told_who_they_are(database: Database, session: HotSession) -> None:
    running, alone, later = tasks.submit(database), tasks.submit(database, exclusive=True), tasks.submit(database)
    assert message(database, session, running)
    code, said = only(database, alone)
    assert code == "not_alone"
    assert str(running) in said
    assert not message(database, session, alone)
    code, said = only(database, later)
    assert code == "exclusive_waiting"
    assert str(alone) in said


def test_a_pause_says_who_since_when_and_why(database: Database) -> None:
    task_id = tasks.submit(database)
    values = "('kind', :kind, 'user:ada', 'too hot', '2030-01-31 12:00Z')"
    tasks.run_sql(
        database, f"insert into pauses (what, name, paused_by, reason, created_at) values {values}", kind=PLAIN.name
    )
    said = only(database, task_id)[1]
    assert said.startswith(f"kind {PLAIN.name} was paused by user:ada at 2030-01-31 12:00:00Z (too hot)")


def test_a_broker_that_no_dispatcher_reaches_is_named_after_a_while(database: Database) -> None:
    task_id = tasks.submit(database)
    assert only(database, task_id)[0] == "next"
    age = "update tasks set available_at = available_at - interval '20 s'"
    tasks.run_sql(database, age)
    assert only(database, task_id)[0] == "broker_away"
    with database.engine.begin() as connection:
        hints.broker_state(connection)
        hints.broker_reached(connection, pace=0)
    assert only(database, task_id)[0] == "next"
    tasks.run_sql(database, "update broker_state set updated_at = clock_timestamp() - interval '20 s'")
    code, said = only(database, task_id)
    assert code == "broker_away"
    assert "20 s ago" in said


def test_a_position_counts_priority_with_age(database: Database) -> None:
    old, urgent, new = tasks.submit(database), tasks.submit(database, priority=1), tasks.submit(database)
    assert [why(database, one)["ahead"] for one in (urgent, old, new)] == [0, 1, 2]
    # Two minutes earlier than the others: worth two steps of priority.
    tasks.run_sql(database, "update task_hints set turn = turn - interval '2 min' where task_id = :id", id=old)
    assert [why(database, one)["ahead"] for one in (old, urgent, new)] == [0, 1, 2]


def test_a_task_whose_message_is_with_the_broker_says_so(database: Database) -> None:
    task_id = tasks.submit(database)
    tasks.run_sql(database, "delete from task_hints")
    assert "its message is with the broker" in only(database, task_id)[1]


def test_why_locks_nothing_that_a_claim_needs(database: Database, session: HotSession) -> None:
    limit(database, "kind", PLAIN.name, 1)
    task_id = tasks.submit(database, scope="ldap")
    with database.engine.begin() as connection:
        assert client.why(connection, task_id)["claimable"] is True
        assert message(database, session, task_id)


def test_hints_are_picked_by_priority_and_age_together(database: Database, session: HotSession) -> None:
    """A step of priority is a minute of waiting, unless a setting says otherwise."""

    def queued(priority: int, seconds: int) -> UUID:
        task_id = tasks.submit(database, priority=priority)
        tasks.run_sql(
            database,
            """update task_hints set turn = hint_turn(k.available_at - make_interval(secs => :s), k.priority)
               from tasks k where k.id = task_id and task_id = :id""",
            s=seconds,
            id=task_id,
        )
        return task_id

    order = [queued(0, 130), queued(2, 5), queued(1, 62), queued(2, 0), queued(-1, 100), queued(0, 30)]
    any_kind = RunOn("default", [spec.name for spec in KINDS])
    got = [session.claim_next(any_kind)[0].lease.task_id for _ in order]
    assert got == order


def test_the_worth_of_a_step_is_read_when_a_task_is_queued(database: Database) -> None:
    turn = (
        "select extract(epoch from k.available_at - h.turn)::float8 from task_hints h join tasks k on k.id = h.task_id"
    )
    tasks.submit(database, priority=3)
    assert tasks.value(database, turn) == 180
    tasks.run_sql(database, "delete from task_hints")
    tasks.run_sql(database, "insert into service_settings (name, value) values ('dispatch.ageing_seconds', '10')")
    tasks.submit(database, priority=3)
    assert tasks.value(database, turn) == 30


def test_a_hint_that_was_lost_is_made_again_with_its_old_turn(database: Database) -> None:
    task_id = tasks.submit(database, priority=2, scope="ldap")
    before = tasks.value(database, "select array[turn::text, scope] from task_hints where task_id = :id", id=task_id)
    tasks.run_sql(database, "delete from task_hints")
    with database.engine.begin() as connection:
        assert hints.hint_again(connection, ["default"], older=0) == 1
        again = connection.execute(text("select array[turn::text, scope] from task_hints")).scalar()
    assert again == before
