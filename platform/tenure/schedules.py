"""Schedules: add, change, show, pause, resume, remove, and (from `tenure.executions`) run now, backfill, cancel; in the
caller's own transaction. `connection` is a SQLAlchemy Connection or ORM Session; nothing here commits.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection
from uuid_utils.compat import uuid7

from tenure import defining
from tenure.caller import AnyConnection, connection_of
from tenure.executions import backfill as backfill
from tenure.executions import cancel_execution as cancel_execution
from tenure.executions import execution as execution
from tenure.executions import held, no_such
from tenure.executions import run_now as run_now
from tenure.model import requests
from tenure.model.definitions import ScheduleSpec
from tenure.model.errors import (
    NoSuchSchedule,
    RevisionConflict,
    ScheduleExists,
    ScheduleInvalid,
    ScheduleIsBuiltIn,
    shortened,
)
from tenure.model.records import Initiator
from tenure.model.recurrence import next_after, resumed
from tenure.store import execution_reads as reads
from tenure.store import schedules as store
from tenure.store.schedules import Schedule

UPCOMING = 5  # due times that `show` tells of


def add(
    connection: AnyConnection,
    spec: ScheduleSpec,
    *,
    initiator: Initiator,
    origin: str = "",
    built_in: bool = False,
) -> UUID:
    """Create a schedule; its first occurrence is the first after now. Its id.

    Raises ScheduleExists, KindIsInternal, and UsageError for what cannot be kept, naming it.
    """
    requests.check_initiator(initiator)
    defining.check(spec, built_in=built_in)
    database = connection_of(connection)
    now = store.now(database)
    schedule_id = UUID(bytes=uuid7().bytes)
    made = store.insert(
        database, schedule_id, spec, anchor=now, next_run_at=_first_after(spec, now, now),
        by=str(initiator), origin=origin, built_in=built_in,
    )  # fmt: skip
    if not made:
        raise ScheduleExists(f"there is a schedule {shortened(spec.name)!r} already: change it, or choose another name")
    return schedule_id


def change(
    connection: AnyConnection,
    spec: ScheduleSpec,
    *,
    revision: int,
    initiator: Initiator,
    origin: str | None = None,
) -> int:
    """Replace what is wanted of a schedule, if it is still at `revision`; the new revision. What runs already goes on as
    it was started. A recurrence that stays keeps its next occurrence; a new one, or one that was disabled, has its first
    after now.

    Raises NoSuchSchedule, RevisionConflict, what `add` raises, and ScheduleIsBuiltIn for other steps of a built-in one.
    """
    requests.check_initiator(initiator)
    database = connection_of(connection)
    name = spec.name
    before = held(database, name)
    defining.check(spec, built_in=before.built_in)
    if before.revision != revision:
        raise RevisionConflict(f"schedule {name} is at revision {before.revision}, not {revision}: look at it again")
    if before.built_in and spec.steps != before.spec.steps:
        raise ScheduleIsBuiltIn(f"schedule {name} is built in: its steps cannot be changed")
    return _replace(database, before, spec, origin=before.origin if origin is None else origin, by=str(initiator))


def reseed(connection: AnyConnection, before: Schedule, spec: ScheduleSpec, *, initiator: Initiator) -> int:
    """Bring the steps of a built-in schedule to those of `spec`, and nothing else; the new revision."""
    wanted = before.spec.model_copy(update={"steps": spec.steps})
    return _replace(connection_of(connection), before, wanted, origin=before.origin, by=str(initiator))


def _replace(database: Connection, before: Schedule, spec: ScheduleSpec, *, origin: str, by: str) -> int:
    now = store.now(database)
    same = store.recurs(spec) == store.recurs(before.spec)
    anchor = before.anchor if same else now
    next_run_at = _first_after(spec, now, anchor)
    if same and spec.enabled and before.next_run_at is not None:
        next_run_at = before.next_run_at
    if not store.change(database, before, spec, anchor=anchor, next_run_at=next_run_at, origin=origin, by=by):
        raise RevisionConflict(f"schedule {before.name} was changed meanwhile: look at it again")
    return before.revision + 1


def get(connection: AnyConnection, name: str) -> Schedule:
    """One schedule. Raises NoSuchSchedule."""
    found = store.by_name(connection_of(connection), name)
    if found is None:
        raise NoSuchSchedule(no_such(name))
    return found


def show(connection: AnyConnection, name: str, *, occurrences: int = 20) -> dict[str, Any]:
    """One schedule whole: name, recurrence, policies, steps[[step]] by group, pause, next_run_at, upcoming[], and the newest
    `occurrences` [{execution_id, due_at, trigger, state, reason, tasks[]}]. Raises NoSuchSchedule."""
    found = get(connection, name)
    return {
        **described(found),
        "upcoming": _upcoming(found),
        "occurrences": reads.occurrences(connection_of(connection), found.id, limit=occurrences),
    }


def described(found: Schedule) -> dict[str, Any]:
    """A schedule as a document: what it is, without what ran."""
    kept = {name: value for name, value in vars(found).items() if name not in ("spec", "anchor")}
    return {**kept, **dict(found.spec), "steps": [[dict(step) for step in group] for group in found.spec.steps]}


def listing(connection: AnyConnection, *, origin: str | None = None) -> list[Schedule]:
    """All schedules by name; with `origin` those that it keeps."""
    return store.listing(connection_of(connection), origin=origin)


def pause(connection: AnyConnection, name: str, *, initiator: Initiator, reason: str | None = None) -> bool:
    """Let it start nothing by itself until it is resumed. False: it was paused already. Raises NoSuchSchedule."""
    requests.check_initiator(initiator)
    requests.check_text(reason=reason)
    database = connection_of(connection)
    return store.pause(database, held(database, name).id, by=str(initiator), reason=reason)


def resume(connection: AnyConnection, name: str) -> bool:
    """Let it fire again. What came while it was paused was not missed. False: it was not paused. NoSuchSchedule."""
    database = connection_of(connection)
    found = held(database, name)
    recurrence = found.spec.recurrence
    next_run_at = found.next_run_at
    if recurrence is not None and next_run_at is not None:
        next_run_at = resumed(recurrence, next_run_at, store.now(database))
    return store.resume(database, found.id, next_run_at=next_run_at)


def enable(connection: AnyConnection, name: str, enabled: bool, *, initiator: Initiator) -> bool:
    """Whether it is wanted at all, also of a built-in one; nothing that came while it was disabled was missed. False: it
    was so already. Raises NoSuchSchedule."""
    requests.check_initiator(initiator)
    database = connection_of(connection)
    before = held(database, name)
    if before.spec.enabled == enabled:
        return False
    wanted = before.spec.model_copy(update={"enabled": enabled})
    _replace(database, before, wanted, origin=before.origin, by=str(initiator))
    return True


def remove(connection: AnyConnection, name: str) -> None:
    """Delete it. What runs goes on, what ran stays known. Raises NoSuchSchedule, ScheduleIsBuiltIn."""
    database = connection_of(connection)
    found = held(database, name)
    if found.built_in or not store.remove(database, found.id):
        raise ScheduleIsBuiltIn(f"schedule {name} is built in: disable or pause it instead")


def _upcoming(found: Schedule) -> list[datetime]:
    """When it is due next, and after that; [] when nothing lets it fire, or its recurrence is not understood here."""
    moments: list[datetime] = []
    at = found.next_run_at if found.spec.enabled and found.paused_by is None else None
    try:
        while at is not None and found.spec.recurrence is not None and len(moments) < UPCOMING:
            moments.append(at)
            at = next_after(found.spec.recurrence, at, anchor=at)
    except ScheduleInvalid:
        return []
    return moments


def _first_after(spec: ScheduleSpec, moment: datetime, anchor: datetime) -> datetime | None:
    """The first occurrence after a moment, of an interval that counts from `anchor`. None: by hand, or disabled."""
    if spec.recurrence is None or not spec.enabled:
        return None
    return next_after(spec.recurrence, moment, anchor=anchor)
