"""`why` and the claim read one predicate: whatever makes a claim refuse a task is named."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text

from tenure import client
from tenure.model.errors import NoSuchTask
from tenure.model.records import Initiator
from tenure.store.transitions.claim import CLAIM
from tests.support.databases import Database
from tests.support.kinds.count import COUNT

TESTER = Initiator("test", "1", "tester")


def submit(connection: Connection, **options: Any) -> UUID:
    return client.submit(connection, COUNT, {"rows": 1}, initiator=TESTER, **options).id


def worker(connection: Connection, *, kinds: list[str], queues: list[str], seen: str = "0 s") -> UUID:
    boot = uuid4()
    connection.execute(
        text("""insert into workers (boot_id, node, role, pid, version, slots, queues, kinds, last_seen)
            values (:boot, 'node-1', 'worker', 7, '1', 2, :queues, :kinds, clock_timestamp() - cast(:seen as interval))"""),
        {"boot": boot, "queues": queues, "kinds": kinds, "seen": seen},
    )
    return boot


def claim(connection: Connection, task_id: UUID, boot: UUID) -> Any:
    values = {"id": task_id, "kinds": [COUNT.name], "worker": boot, "pid": 7, "lease_seconds": 30.0}
    return connection.execute(text(CLAIM), values).first()


def codes(connection: Connection, task_id: UUID) -> list[str]:
    return [reason["code"] for reason in client.why(connection, task_id)["reasons"]]


def age(change: str) -> Callable[[Connection, UUID], None]:
    return lambda connection, task_id: void(
        connection.execute(text(f"update tasks set {change} where id = :id"), {"id": task_id})
    )


def pause(what: str, name: str) -> Callable[[Connection, UUID], None]:
    statement = text("insert into pauses (what, name, paused_by) values (:what, :name, 'somebody')")
    return lambda connection, _: void(connection.execute(statement, {"what": what, "name": name}))


def stop(connection: Connection, task_id: UUID) -> None:
    connection.execute(text("insert into task_stops (task_id, asked_by) values (:id, 'somebody')"), {"id": task_id})


def void(_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("obstacle", "code"),
    [
        (age("available_at = clock_timestamp() + interval '1 hour'"), "not_due"),
        (age("deadline = clock_timestamp() - interval '1 second'"), "deadline_passed"),
        (age("start_by = clock_timestamp() - interval '1 second'"), "start_by_passed"),
        (age("state = 'scheduled', available_at = clock_timestamp() + interval '1 hour'"), "not_due"),
        (age("state = 'scheduled'"), "promotion_due"),
        (age("state = 'waiting'"), "waiting"),
        (pause("kind", "tests.count"), "kind_paused"),
        (pause("queue", "counting"), "queue_paused"),
        (stop, "stop_asked"),
    ],
)
def test_what_a_claim_refuses_is_named(
    database: Database, obstacle: Callable[[Connection, UUID], None], code: str
) -> None:
    with database.engine.begin() as connection:
        boot = worker(connection, kinds=[COUNT.name], queues=["counting"])
        made = submit(connection)
        assert client.why(connection, made)["claimable"] is True
        obstacle(connection, made)
        assert claim(connection, made, boot) is None
        assert client.why(connection, made)["claimable"] is False
        assert codes(connection, made) == [code]


def test_who_holds_a_task_is_named_and_that_a_stop_was_asked(database: Database) -> None:
    with database.engine.begin() as connection:
        boot = worker(connection, kinds=[COUNT.name], queues=["counting"])
        made = submit(connection)
        token = claim(connection, made, boot)[3]
        answer = client.why(connection, made)
        assert (answer["holder"]["node"], answer["holder"]["token"], answer["claimable"]) == ("node-1", token, False)
        assert codes(connection, made) == ["held"]
        client.cancel(connection, made, initiator=TESTER)
        assert codes(connection, made) == ["held", "stop_asked"]
        connection.execute(text("update task_leases set expires = clock_timestamp() - interval '9 s'"))
        assert codes(connection, made) == ["lease_expired", "stop_asked"]


def test_tasks_before_it_are_counted_by_priority_and_age(database: Database) -> None:
    with database.engine.begin() as connection:
        worker(connection, kinds=[COUNT.name], queues=["counting"])
        first, second, urgent = submit(connection), submit(connection), submit(connection, priority=5)
        ahead = {task: client.why(connection, task)["ahead"] for task in (first, second, urgent)}
        assert ahead == {urgent: 0, first: 1, second: 2}
        assert (codes(connection, urgent), codes(connection, second)) == (["next"], ["queued"])


@pytest.mark.parametrize(
    ("kinds", "queues", "seen", "code"),
    [
        ([COUNT.name], ["counting"], "1 h", "no_worker"),
        (["other"], ["counting"], "0 s", "unknown_kind"),
        ([COUNT.name], ["other"], "0 s", "queue_unserved"),
    ],
)
def test_a_task_that_no_live_worker_would_take_says_so(
    database: Database, kinds: list[str], queues: list[str], seen: str, code: str
) -> None:
    with database.engine.begin() as connection:
        worker(connection, kinds=kinds, queues=queues, seen=seen)
        assert codes(connection, submit(connection)) == [code]


def test_an_ended_task_says_how_it_ended(database: Database) -> None:
    with database.engine.begin() as connection:
        made = submit(connection)
        client.cancel(connection, made, initiator=TESTER)
        assert codes(connection, made) == ["ended"]


def test_an_unknown_task_is_refused(database: Database) -> None:
    with database.engine.connect() as connection, pytest.raises(NoSuchTask):
        client.why(connection, uuid4())
