"""Activities without a task: housekeeping, recovery, a change that somebody makes at once. In the caller's own transaction.

`connection` is a SQLAlchemy Connection or ORM Session; nothing here commits. One that is started and ended in the same
transaction exists if and only if that commits. One that is committed before its end must be ended within `within`: whoever
has it in hand may die, and then it is ended as failed. `recorded` takes care of all that for a block of code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from uuid_utils.compat import uuid7

from tenure.caller import AnyConnection, connection_of
from tenure.model import requests
from tenure.model.errors import Refused, UsageError
from tenure.model.faults import expected, sanitized, storable, stored_stack
from tenure.model.items import Item
from tenure.model.records import Initiator
from tenure.store import items
from tenure.store.transitions import activities

WITHIN = timedelta(hours=1)


@dataclass(frozen=True)
class Target:
    """What it is about, as copies: they outlive what they name."""

    type: str
    id: str | None = None
    name: str | None = None


class Closed(NamedTuple):
    """How an activity stands. `first`: this call ended it; otherwise it had ended already, and nothing was changed."""

    status: str
    first: bool


def start(
    connection: AnyConnection,
    *,
    initiator: Initiator,
    target: Target,
    context: str | None = None,
    parent: UUID | None = None,
    actor: str | None = None,
    within: timedelta = WITHIN,
) -> UUID:
    """A new activity in progress; its id. `actor`: who executes it. Give the id to `submit(activity=…)` to let tasks do it:
    it then ends with the last of them. UsageError for an initiator outside the matrix, or a target that cannot be."""
    requests.check_initiator(initiator)
    requests.check_name("target_type", target.type, shortest=1)
    for name, text in (("target_id", target.id), ("target_name", target.name), ("actor", actor)):
        if text is not None:
            requests.check_name(name, text)
    requests.check_text(context=context)
    if not timedelta(0) < within <= requests.FARTHEST:
        raise UsageError("within: a time above 0, at most 100 years")
    made = activities.Start(
        UUID(bytes=uuid7().bytes), initiator, within, target.type, target.id, target.name,
        None if context is None else storable(context), parent, actor,
    )  # fmt: skip
    activities.start(connection_of(connection), made)
    return made.id


def record(connection: AnyConnection, activity_id: UUID, found: Iterable[Item]) -> int:
    """Items of it; how many. See `Attempt.items`."""
    return items.insert(connection_of(connection), items.Under(activity_id, activity_id), found)


def record_from(
    connection: AnyConnection,
    activity_id: UUID,
    columns: Sequence[str],
    select: str,
    values: Mapping[str, Any] | None = None,
) -> int:
    """An item for each row of a query. See `Attempt.items_from`."""
    under = items.Under(activity_id, activity_id)
    return items.insert_from(connection_of(connection), under, columns, select, values or {})


def count(connection: AnyConnection, activity_id: UUID, **changes: int) -> None:
    """Objects without an item, by change."""
    items.count(connection_of(connection), items.Under(activity_id, activity_id), changes)


def warn(connection: AnyConnection, activity_id: UUID, message: str) -> None:
    """A warning about the whole. Refused once it has ended."""
    if not activities.warn(connection_of(connection), activity_id, message):
        raise _not_to_end(connection, activity_id)


def end(connection: AnyConnection, activity_id: UUID, *, actor: str | None = None) -> Closed:
    """End it by what its items and warnings say. One that has ended stays as it is: the first end wins.

    Refused: there is none of that id, or tasks that have not ended are at it.
    """
    return _end(connection, activity_id, actor=actor)


def fail(
    connection: AnyConnection, activity_id: UUID, reason: str | BaseException, *, actor: str | None = None
) -> Closed:
    """End it as failed, whatever its items say. Of an exception that is none of Tenure's only class, place and stack are
    kept. See `end`."""
    if isinstance(reason, str):
        return _end(connection, activity_id, status="failed", message=storable(reason), actor=actor)
    stack = stored_stack(reason)
    return _end(connection, activity_id, status="failed", message=sanitized(reason), stack=stack, actor=actor)


def cancel(connection: AnyConnection, activity_id: UUID, reason: str, *, actor: str | None = None) -> Closed:
    """End it as cancelled. See `end`."""
    return _end(connection, activity_id, status="cancelled", message=storable(reason), actor=actor)


def _end(connection: AnyConnection, activity_id: UUID, **how: str | None) -> Closed:
    database = connection_of(connection)
    status = activities.end(database, activity_id, **how)
    if status is not None:
        return Closed(status, True)
    found = activities.status(database, activity_id)
    if found is None or found[0] == "in_progress":
        raise _not_to_end(connection, activity_id)
    return Closed(found[0], False)


def _not_to_end(connection: AnyConnection, activity_id: UUID) -> Refused:
    found = activities.status(connection_of(connection), activity_id)
    if found is None:
        return Refused(f"no activity {activity_id}")
    if found[1]:
        return Refused(f"activity {activity_id} has tasks that have not ended: it ends with the last of them")
    return Refused(f"activity {activity_id} has ended as {found[0]}")


@contextmanager
def recorded(
    engine: Engine,
    *,
    initiator: Initiator,
    target: Target,
    context: str | None = None,
    parent: UUID | None = None,
    actor: str | None = None,
    within: timedelta = WITHIN,
) -> Iterator[UUID]:
    """An activity around a block of code, visible while it runs; yields its id. Leaving the block ends it by its items, an
    exception ends it as failed and goes on.

    What the block does with other connections commits or not by itself. Never left in progress: if its end cannot be
    written, it is tried on a fresh connection; if that fails too, the log says so, and it is ended as failed after `within`.
    """
    with engine.begin() as connection:
        made = start(
            connection, initiator=initiator, target=target, context=context, parent=parent, actor=actor, within=within
        )
    try:
        yield made
    except BaseException as error:
        _safely(engine, made, error)
        raise
    _safely(engine, made, None)


def _safely(engine: Engine, activity_id: UUID, error: BaseException | None) -> None:
    """Write the end: on a pooled connection, then on a fresh one; first of all on a fresh one if the error was the
    database's."""
    log = structlog.get_logger("tenure.activities")
    for _ in range(2):
        if isinstance(error, SQLAlchemyError):
            engine.dispose()  # the pool's connections may all be gone: the next is a new one
        try:
            with engine.begin() as connection:
                closed = end(connection, activity_id) if error is None else fail(connection, activity_id, error)
            if error is not None and closed.first and not expected(error):
                log.error("activity_failed", activity_id=str(activity_id), error=type(error).__name__)
            return
        except Refused:
            return  # tasks are at it, and will end it
        except SQLAlchemyError as refused:
            log.warning("activity_end_not_written", activity_id=str(activity_id), error=type(refused).__name__)
            engine.dispose()
    log.critical("activity_left_open", activity_id=str(activity_id))
