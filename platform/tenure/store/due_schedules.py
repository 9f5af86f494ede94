"""Schedules whose time has come: claimed by a beat, and moved on to their next time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.store.schedules import COLUMNS, Schedule, of_row

# statement_timestamp() is stable within the statement: the partial index can serve it.
_ANY_DUE = text("""select extract(epoch from (select s.next_run_at from schedules s where s.enabled and s.paused_by is null
    and s.next_run_at is not null order by s.next_run_at limit 1) - statement_timestamp())::float8""")
_CLAIM = text(f"""select statement_timestamp() as now, {COLUMNS} from schedules s where s.enabled and s.paused_by is null
      and s.next_run_at <= statement_timestamp()
    order by s.next_run_at limit :room for no key update skip locked""")
_FIRED = text("""update schedules set next_run_at = r.next_run_at, last_due_at = coalesce(r.last_due_at, schedules.last_due_at),
        missed = schedules.missed + r.missed
    from json_to_recordset(cast(:rows as json)) as r(id uuid, next_run_at timestamptz, last_due_at timestamptz, missed bigint)
    where schedules.id = r.id""")


def seconds_to_next(connection: Connection) -> float | None:
    """Until the next one is due, below 0 when one is; None: none ever will be. One cheap statement."""
    found: float | None = connection.execute(_ANY_DUE).scalar()
    return found


def claim_due(connection: Connection, room: int) -> tuple[datetime, list[Schedule]] | None:
    """The moment by the database's clock, and up to `room` schedules due at it, longest due first, held until the
    transaction ends. Those that somebody holds are passed over. None: nothing is left to claim."""
    rows = [dict(row) for row in connection.execute(_CLAIM, {"room": room}).mappings()]
    moments = [row.pop("now") for row in rows]
    return (moments[0], [of_row(row) for row in rows]) if rows else None


@dataclass(frozen=True)
class Fired:
    """What became of a claimed schedule: when it is due next, the last due time that was dealt with, how many it missed."""

    id: UUID
    next_run_at: datetime | None
    last_due_at: datetime | None
    missed: int


def fired(connection: Connection, rows: Sequence[Fired]) -> None:
    """Write when claimed schedules are due next. Only for rows that this transaction holds."""
    documents = [
        {
            "id": str(row.id),
            "next_run_at": row.next_run_at and row.next_run_at.isoformat(),
            "last_due_at": row.last_due_at and row.last_due_at.isoformat(),
            "missed": row.missed,
        }
        for row in rows
    ]
    if rows and connection.execute(_FIRED, {"rows": json.dumps(documents)}).rowcount != len(rows):
        raise AssertionError("a schedule that this transaction holds is gone")
