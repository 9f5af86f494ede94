"""submit_many: tasks of one kind by the thousand, in the caller's own transaction; all are checked before one is written."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection
from uuid_utils.compat import uuid7

from tenure import settings
from tenure.caller import AnyConnection, connection_of, public_spec_of
from tenure.model import requests
from tenure.model.errors import ActiveLimitReached, IdempotencyConflict, Refused, TenureError, shortened
from tenure.model.kinds import Kind, KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.store import advisory
from tenure.store.transitions import activities
from tenure.store.transitions import submit as submitting
from tenure.store.transitions.submit_many import Row, by_keys, insert_many

Params = Mapping[str, Any] | BaseModel | None


@dataclass(frozen=True)
class Item:
    """One task of a batch: its params, and what differs from what the call says for all."""

    params: Params = None
    key: str | None = None
    at: datetime | None = None
    start_by: datetime | None = None
    deadline: datetime | timedelta | None = None
    priority: int | None = None
    labels: Mapping[str, str] | None = None
    scope: str | None = None
    exclusive: bool | None = None


def limit_key(spec: KindSpec, submitter: str) -> int:
    """The advisory key under which active tasks of this kind and submitter are counted."""
    return advisory.within(advisory.ACTIVE_LIMITS, zlib.crc32(f"{spec.name}\0{submitter}".encode()))


def limit_reached(spec: KindSpec) -> str:
    return f"{spec.active_limit} {spec.name} tasks are active already: wait for one to end, or cancel one"


def submit_many(
    connection: AnyConnection,
    kind: str | KindSpec | Kind,
    items: Iterable[Item | Params],
    *,
    initiator: Initiator,
    submitter: str = "",
    at: datetime | None = None,
    start_by: datetime | None = None,
    deadline: datetime | timedelta | None = None,
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    scope: str | None = None,
    exclusive: bool | None = None,
    activity: UUID | None = None,
) -> list[Submitted]:
    """Create tasks of one public kind, a thousand to a round trip; answers for each item, in their order.

    An item is its params, or an `Item` with a key and options of its own. An item whose key is known answers the task
    that has it: `created` is False, and `conflict` says so where that task's request is another one. For a wrong item
    nothing is written: the error is the one `submit` raises and names the item, counted from 0. Items are held in
    memory; the caller cuts what does not fit.
    """
    spec = public_spec_of(kind)
    requests.check_initiator(initiator)
    requests.check_name("submitter", submitter)
    common = Item(None, None, at, start_by, deadline, priority, labels, scope, exclusive)
    _check(common)
    limit = settings.load().params_bytes
    rows = [_row(spec, item, common, index, limit) for index, item in enumerate(items)]
    database = connection_of(connection)
    _hold_limit(database, spec, rows, submitter)
    _hold_activity(database, activity, rows, submitter)
    made = insert_many(database, spec, rows, initiator=initiator, submitter=submitter, activity_id=activity)
    keys = [row.key for row in rows if row.key is not None and row.id not in made]
    known = by_keys(database, submitter, keys)
    return [Submitted(row.id, True) if row.id in made else _answer(spec, row, known) for row in rows]


def _check(item: Item) -> None:
    if item.key is not None:
        requests.check_name("idempotency_key", item.key, shortest=1)
    requests.check_labels(item.labels)
    requests.check_priority(item.priority)
    if item.scope is not None:
        requests.check_name("scope", item.scope, shortest=1)
    requests.check_times(at=item.at, start_by=item.start_by, deadline=item.deadline)


def _row(spec: KindSpec, item: Item | Params, common: Item, index: int, limit: int) -> Row:
    own = item if isinstance(item, Item) else Item(item)
    try:
        body = requests.encode(spec, {} if own.params is None else own.params, limit)
        if own is item:
            _check(own)
    except TenureError as error:
        raise type(error)(f"item {index}: {error}") from None

    def either(name: str, last: Any = None) -> Any:
        value = getattr(own, name)
        value = getattr(common, name) if value is None else value
        return last if value is None else value

    return Row(
        id=UUID(bytes=uuid7().bytes),
        params=body,
        request_hash=hashlib.sha256(body.encode()).hexdigest(),
        key=own.key,
        priority=either("priority", spec.priority),
        labels=dict(either("labels", {})),
        scope=either("scope", spec.scope),
        exclusive=either("exclusive", spec.exclusive),
        at=either("at"),
        start_by=either("start_by"),
        deadline=either("deadline"),
    )


def _hold_limit(database: Connection, spec: KindSpec, rows: list[Row], submitter: str) -> None:
    """Raises ActiveLimitReached at the first item that would be one task too many."""
    if spec.active_limit is None:
        return
    submitting.lock_limits(database, [limit_key(spec, submitter)])
    seen = set(by_keys(database, submitter, [row.key for row in rows if row.key is not None]))
    room = spec.active_limit - submitting.active_count(database, spec.names, submitter)
    for index, row in enumerate(rows):
        if row.key is not None:
            if row.key in seen:
                continue
            seen.add(row.key)
        room -= 1
        if room < 0:
            raise ActiveLimitReached(f"item {index}: {limit_reached(spec)}")


def _hold_activity(database: Connection, activity: UUID | None, rows: list[Row], submitter: str) -> None:
    """Raises Refused if the activity cannot take the tasks; those whose key is known are made already."""
    if activity is None or (refusal := not_attachable(database, activity)) is None:
        return
    known = by_keys(database, submitter, [row.key for row in rows if row.key is not None])
    if any(row.key not in known for row in rows):
        raise refusal


def not_attachable(database: Connection, activity: UUID) -> Refused | None:
    """Why no task may be added to this activity: its run would be recorded nowhere. None: one may."""
    found = activities.status(database, activity)
    if found is None:
        return Refused(f"no activity {activity}: start it first, or submit without one")
    if found[0] != "in_progress":
        return Refused(f"activity {activity} has ended as {found[0]}: a task needs one in progress, or its own")
    return None


def _answer(spec: KindSpec, row: Row, known: dict[str, tuple[UUID, str, str]]) -> Submitted:
    """What holds the key of a row that was not made."""
    found = known.get(row.key or "")
    if found is None:
        raise IdempotencyConflict("an idempotency key was taken and freed again meanwhile: submit once more")
    task_id, kind, request_hash = found
    if kind in spec.names and request_hash == row.request_hash:
        return Submitted(task_id, False)
    said = f"idempotency key {shortened(row.key)!r} belongs to task {task_id} with another request"
    return Submitted(task_id, False, said)
