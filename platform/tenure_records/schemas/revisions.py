"""Schema revisions of a class: proposed, active, retired; and what a write has to be judged by.

Here is where the change events of schemas will be appended: one function per change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from tenure import client
from tenure.model import requests
from tenure.model.errors import NoSuchTask, TooLate, shortened
from tenure.model.records import Initiator
from tenure.model.states import State
from tenure.store import settings
from tenure_records import classes, locks
from tenure_records.errors import NoSuchClass, NoSuchSchema, RevisionConflict
from tenure_records.schemas.compiling import Json, checked
from tenure_records.schemas.judge import Judge, compile_schema

_PENDING: Final = (State.WAITING.value, State.SCHEDULED.value, State.QUEUED.value)

_COLUMNS = """id, class_id, number, status, mode, encode(digest, 'hex') as digest, object_bytes, scan_id,
    proposer_type, proposer_id, proposer_name, proposed_at, activator_type, activator_id, activator_name, activated_at,
    retired_at"""
_ALL = text(f"select {_COLUMNS} from schema_revisions where class_id = :class_id order by number desc limit :limit")
_OPEN = text(f"""select {_COLUMNS} from schema_revisions where class_id = :class_id and status <> 'retired'
    order by number""")
_TEXT = text("select schema from schema_revisions where id = :id")
_RULES = text("""select r.id, r.number, r.mode, r.object_bytes, r.schema from record_classes c
    left join schema_revisions r on r.class_id = c.id and r.status <> 'retired' where c.id = :class_id order by r.number""")
_NEWEST = text("""select c.id, (select coalesce(max(number), 0) from schema_revisions where class_id = c.id)
    from record_classes c where c.id = :class_id""")
_RETIRE = text("""update schema_revisions set status = 'retired', retired_at = clock_timestamp()
    where class_id = :class_id and status = :status returning id""")
_PROPOSE = text(f"""insert into schema_revisions
        (class_id, number, schema, digest, object_bytes, proposer_type, proposer_id, proposer_name)
    values (:class_id, :number, :schema, :digest, :object_bytes, :type, :id, :name) returning {_COLUMNS}""")
_SCANS = text("""select t.id from schema_scans s join tasks t on t.id = s.task_id
    where s.schema_id = :schema_id and t.finished_at is null and t.state = any(:pending)""")


@dataclass(frozen=True)
class Revision:
    """One schema of a class. `mode` is that of its activation, None while proposed; `digest` that of the schema's text."""

    id: int
    class_id: int
    number: int
    status: str
    mode: str | None
    digest: str
    object_bytes: int
    scan_id: int | None
    proposer: Initiator
    proposed_at: datetime
    activator: Initiator | None
    activated_at: datetime | None
    retired_at: datetime | None


@dataclass(frozen=True)
class Rule:
    """An open revision, compiled: what writes of its class are judged by."""

    id: int
    number: int
    strict: bool
    advisory: bool
    object_bytes: int
    judge: Judge


def propose_schema(
    connection: Connection,
    class_name: str,
    schema: Json | str,
    *,
    initiator: Initiator,
    revision: int | None = None,
) -> Revision:
    """Add a schema (JSON text, or what it decodes to) as the class's proposal; the one before it is retired.

    `revision` is the number expected to be the newest, 0 for none; None takes any. From the commit on every write is
    judged by the proposal too. A queued scan of the former proposal is cancelled, a running one stops itself. What the
    setting `records.object_bytes` says now holds for the revision. Raises NoSuchClass, SchemaRefused, RevisionConflict.
    """
    requests.check_initiator(initiator)
    body = checked(schema)
    compile_schema(body)
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    row = connection.execute(_NEWEST, {"class_id": class_id}).first()
    if row is None:
        raise NoSuchClass(f"class {shortened(class_name)!r} has been dropped")
    if revision is not None and revision != row[1]:
        raise RevisionConflict(
            f"the newest schema revision of class {shortened(class_name)!r} is {row[1]}, not {revision}: look at it first"
        )
    retire(connection, class_id, "proposed", initiator)
    object_bytes = int(settings.value(connection, settings.OBJECT_BYTES))
    made = connection.execute(
        _PROPOSE,
        {
            "class_id": class_id, "number": row[1] + 1, "schema": body, "digest": hashlib.sha256(body.encode()).digest(),
            "object_bytes": object_bytes, "type": initiator.type, "id": initiator.id, "name": initiator.name,
        },
    ).one()  # fmt: skip
    return _revision(made)


def retire(connection: Connection, class_id: int, status: str, initiator: Initiator) -> None:
    """Retire the open revision of this status, if there is one, under `locks.take`. Its queued scan is cancelled."""
    for schema_id in connection.execute(_RETIRE, {"class_id": class_id, "status": status}).scalars().all():
        cancel_pending(connection, schema_id, initiator, "superseded by a newer schema revision")


def cancel_pending(connection: Connection, schema_id: int, initiator: Initiator, reason: str) -> None:
    """Cancel the scans of a revision that have not begun. A running one finds out at its next commit."""
    here = {"schema_id": schema_id, "pending": list(_PENDING)}
    for task_id in connection.execute(_SCANS, here).scalars().all():
        try:
            client.cancel(connection, task_id, initiator=initiator, reason=reason)
        except (TooLate, NoSuchTask):
            pass  # ended meanwhile, or purged: either way it is not in the queue any more


def list_revisions(connection: Connection, class_name: str, *, limit: int = 100) -> list[Revision]:
    """The revisions of a class, newest first. Raises NoSuchClass."""
    class_id = classes.class_id(connection, class_name)
    return [_revision(row) for row in connection.execute(_ALL, {"class_id": class_id, "limit": limit})]


def open_revisions(connection: Connection, class_id: int) -> dict[str, Revision]:
    """The proposed and the active revision of a class, by status; either may be missing."""
    return {row.status: _revision(row) for row in connection.execute(_OPEN, {"class_id": class_id})}


def chosen(connection: Connection, class_id: int, class_name: str, status: str, number: int | None) -> Revision:
    """The open revision of this status. Raises NoSuchSchema, and RevisionConflict when it is not `number`."""
    found = open_revisions(connection, class_id).get(status)
    if found is None:
        hint = "`tenure records schema propose` makes one" if status == "proposed" else "activate a proposal first"
        raise NoSuchSchema(f"class {shortened(class_name)!r} has no {status} schema: {hint}")
    if number is not None and found.number != number:
        raise RevisionConflict(
            f"the {status} schema of class {shortened(class_name)!r} is revision {found.number}, not {number}"
        )
    return found


def text_of(connection: Connection, schema_id: int) -> str | None:
    """The schema as JSON text; None for a revision whose class has been dropped."""
    found: str | None = connection.execute(_TEXT, {"id": schema_id}).scalar()
    return found


def rules(connection: Connection, class_id: int) -> list[Rule]:
    """What a write is judged by now: none, one or two. Who is going to write by it holds the class lock already.

    Raises NoSuchClass for one that was dropped before the lock was had.
    """
    found = connection.execute(_RULES, {"class_id": class_id}).all()
    if not found:
        raise classes.dropped(class_id)
    return [
        Rule(
            row.id, row.number, row.mode == "strict", row.mode == "advisory", row.object_bytes, compile_schema(row.schema)
        )
        for row in found if row.id is not None
    ]  # fmt: skip


def _revision(row: Row[Any]) -> Revision:
    activator = None
    if row.activator_type is not None:
        activator = Initiator(row.activator_type, row.activator_id, row.activator_name)
    return Revision(
        row.id, row.class_id, row.number, row.status, row.mode, row.digest, row.object_bytes, row.scan_id,
        Initiator(row.proposer_type, row.proposer_id, row.proposer_name), row.proposed_at,
        activator, row.activated_at, row.retired_at,
    )  # fmt: skip
