"""From when on things are kept, by the database's clock and the settings as they are now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from tenure.store import settings
from tenure.store.settings import RuntimeSetting

_BEFORE = text("select clock_timestamp() - make_interval(secs => :days * 86400)")


@dataclass(frozen=True)
class Cutoffs:
    """What is older may go; None: all of it is kept for ever. `exact` is said of history (see `history.py`)."""

    tasks: datetime | None
    executions: datetime | None
    activities: datetime | None
    events: datetime | None
    attempts: datetime | None
    tombstones: datetime | None
    exact: frozenset[str]


WHOLE_MONTHS_FROM = 31  # days


def read(connection: Connection) -> Cutoffs:
    """The cut-offs of this moment. An activity, and an execution, is kept at least as long as the tasks are."""
    tasks = before(connection, settings.KEEP_TASKS)
    history = {
        "task_events": settings.KEEP_EVENTS,
        "task_attempts": settings.KEEP_ATTEMPTS,
        "activity_items": settings.KEEP_ACTIVITIES,
    }
    short = {name for name, kept in history.items() if settings.value(connection, kept) < WHOLE_MONTHS_FROM}
    return Cutoffs(
        tasks,
        _earlier(tasks, before(connection, settings.KEEP_EXECUTIONS)),
        _earlier(tasks, before(connection, settings.KEEP_ACTIVITIES)),
        before(connection, settings.KEEP_EVENTS),
        before(connection, settings.KEEP_ATTEMPTS),
        before(connection, settings.KEEP_TOMBSTONES),
        frozenset(short),
    )


def before(connection: Connection, kept: RuntimeSetting) -> datetime | None:
    """From when on something is kept; None: for ever."""
    days = settings.value(connection, kept)
    moment: datetime | None = connection.execute(_BEFORE, {"days": days}).scalar_one() if days else None
    return moment


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return None if one is None or other is None else min(one, other)
