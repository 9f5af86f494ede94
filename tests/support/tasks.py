"""Kinds without bodies, and the verbs on them as a submitter, a worker and a reaper would call them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, text
from uuid_utils.compat import uuid7

from tenure import client
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Ended, Holder, Initiator, Lease
from tenure.store.checkpoints import Page, save
from tenure.store.hot import HotSession
from tests.support.databases import Database


class Anything(BaseModel):
    """Params that may be any JSON object."""

    model_config = ConfigDict(extra="allow")


PLAIN = KindSpec("store.plain", params=Anything, max_attempts=3, on_lost="resume")
PLANNED = KindSpec("store.planned", params=Anything, max_attempts=3, on_lost="resume", plans=True)
ONCE = KindSpec("store.once", params=Anything)
LIMITED = KindSpec("store.limited", params=Anything, active_limit=5)
KINDS = (PLAIN, PLANNED, ONCE, LIMITED)
ADA = Initiator("user", "1815", "ada")

SUCCEEDED = Ended("succeed", "succeeded")
PARTIALLY = Ended("partially_succeed", "partially_succeeded", activity="complete_with_error")
FAILED = Ended("fail", "failed", "error", "Broken", "it broke", activity="failed")
REJECTED = Ended("reject", "failed", "rejected", "rejected", "wrong", activity="failed")
CANCELLED = Ended("acknowledge_cancel", "cancelled", activity="cancelled")
AGAIN = Ended("retry_later", "scheduled", None, "Busy", "busy", available_after=3600.0)

LEASE_SECONDS = 30.0


def scale(full: int, short: int) -> int:
    """How often to try what needs many tries: TENURE_TEST_SCALE=full asks for the whole count."""
    return full if os.environ.get("TENURE_TEST_SCALE") == "full" else short


def submit(database: Database, spec: KindSpec = PLAIN, params: Any = None, **options: Any) -> UUID:
    """A committed task of ada's."""
    with database.engine.begin() as connection:
        return client.submit(connection, spec, params, initiator=ADA, **options).id


def submit_many(database: Database, count: int, spec: KindSpec = PLAIN, **options: Any) -> list[UUID]:
    """A submission, and copies of all it wrote: a backlog costs a few statements instead of one per task."""
    first = submit(database, spec, **options)
    ids = [UUID(bytes=uuid7().bytes) for _ in range(count - 1)]
    with database.engine.begin() as connection:
        for copy in _COPIES:
            connection.execute(text(copy), {"first": first, "ids": ids})
    return [first, *ids]


_COPIES = (
    """insert into tasks select (jsonb_populate_record(t, jsonb_build_object('id', i, 'activity_id', i))).*
       from tasks t, unnest(cast(:ids as uuid[])) i where t.id = :first""",
    "insert into task_params select i, p.params from task_params p, unnest(cast(:ids as uuid[])) i where task_id = :first",
    """insert into activities select (jsonb_populate_record(a, jsonb_build_object('id', i, 'task_id', i))).*
       from activities a, unnest(cast(:ids as uuid[])) i where a.id = :first""",
    """insert into task_events (task_id, verb, state, note) select i, e.verb, e.state, e.note
       from task_events e, unnest(cast(:ids as uuid[])) i where e.task_id = :first""",
    """insert into task_hints (task_id, kind, queue, scope, priority, turn) select i, h.kind, h.queue, h.scope, h.priority, h.turn
       from task_hints h, unnest(cast(:ids as uuid[])) i where h.task_id = :first""",
)


def cancel(database: Database, task_id: UUID) -> str:
    with database.engine.begin() as connection:
        return client.cancel(connection, task_id, initiator=ADA)


@contextmanager
def worker(
    database: Database, *, boot: UUID | None = None, pid: int = 4711, kinds: Sequence[KindSpec] = KINDS
) -> Iterator[HotSession]:
    """A child's session for claims and ends; closed at the end, whatever it holds."""
    names = [spec.name for spec in kinds]
    session = HotSession(database.url, Holder(boot or uuid4(), pid), names, lease_seconds=LEASE_SECONDS)
    try:
        yield session
    finally:
        session.close()


def claimed(session: HotSession, task_id: UUID) -> Claimed:
    got = session.claim(task_id)
    assert got is not None, "a claim that must succeed was refused"
    return got


def ends(session: HotSession, lease: Lease, how: Ended) -> bool:
    """Whether the end was accepted."""
    accepted, _ = session.end([lease], how)
    return lease.token in accepted


def checkpoint(connection: Connection, lease: Lease, expected: int = 0) -> bool:
    return save(connection, lease, expected, Page('{"at": 1}', processed=1, succeeded=1)) is not None


def run_sql(database: Database, statement: str, **values: Any) -> int:
    """One committed statement; its row count. For ageing what only time would change."""
    with database.engine.begin() as connection:
        return connection.execute(text(statement), values).rowcount


def expire_lease(database: Database, *task_ids: UUID) -> None:
    statement = "update task_leases set expires = clock_timestamp() - interval '1 second' where task_id = any(:ids)"
    assert run_sql(database, statement, ids=list(task_ids)) == len(task_ids)


def value(database: Database, query: str, **values: Any) -> Any:
    with database.engine.connect() as connection:
        return connection.execute(text(query), values).scalar()


def state(database: Database, task_id: UUID) -> str:
    return str(value(database, "select state from tasks where id = :id", id=task_id))


def task(database: Database, task_id: UUID) -> dict[str, Any]:
    with database.engine.connect() as connection:
        return client.get(connection, task_id)


def bounded(connection: Connection, milliseconds: int = 300) -> None:
    """Whoever waits for a lock on this connection fails: a test of "does not wait" must not hang."""
    connection.execute(text(f"set local lock_timeout = {milliseconds}"))
