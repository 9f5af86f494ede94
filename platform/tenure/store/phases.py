"""The phases of an attempt: written beside its transactions, fenced by its lease, told to who watches.

They are closed by whoever ends the lease, in the same transaction (a trigger); never here, but for what that had to leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.records import Lease
from tenure.store.connect import dumps
from tenure.store.leases import PHASED, STILL_PHASED

CHANNEL = "tenure_activities"  # payload: the id of an activity whose progress has changed


def _writing(fence: str, started_at: str, also: str = "") -> str:
    """`ago` is seconds before now: times are the database's, lengths are the writer's."""
    return f"""with
    f as ({fence}),
    r as (select * from json_to_recordset(cast(:rows as json)) as r(position smallint, path text, status text, done bigint,
              total bigint, message text, started_ago float8, ended_ago float8)),
    w as (insert into activity_phases as p
              (activity_id, task_id, position, path, status, done, total, message, started_at, ended_at, updated_at)
          select :activity_id, f.task_id, r.position, r.path, r.status, r.done, r.total, r.message,
              clock_timestamp() - make_interval(secs => r.started_ago),
              clock_timestamp() - make_interval(secs => r.ended_ago), clock_timestamp()
          from f cross join r
          on conflict (activity_id, task_id, position) do update set path = excluded.path, status = excluded.status,
              done = excluded.done, total = excluded.total, message = excluded.message, started_at = {started_at},
              ended_at = excluded.ended_at, updated_at = excluded.updated_at){also}
    select pg_notify('{CHANNEL}', cast(:activity_id as text)) from f"""


# An attempt's first write puts its own phases in the place of those of the attempt before.
_DECLARE = text(
    _writing(
        PHASED,
        "excluded.started_at",
        """,
    x as (delete from activity_phases p using f where p.activity_id = :activity_id and p.task_id = f.task_id
          and p.position > (select max(position) from r))""",
    )
)
_UPDATE = text(_writing(STILL_PHASED, "coalesce(p.started_at, excluded.started_at)"))

# Whoever ended the lease could not wait for a lock on them.
_LEFT_OPEN = text("""select coalesce(sum(close_phases(task_id)), 0) from (select distinct p.task_id from activity_phases p
    where p.status in ('pending','running')
      and not exists (select 1 from task_leases l where l.task_id = p.task_id)) left_open""")


def write(
    connection: Connection, lease: Lease, activity_id: UUID, rows: Sequence[dict[str, Any]], *, anew: bool
) -> bool:
    """Write these phases; `anew`: they are all there are. False: the lease is lost, nothing was written.

    On a connection in AUTOCOMMIT. A row has position, path, status, done, total, message, started_ago and ended_ago (s).
    """
    values = {
        "task_id": lease.task_id,
        "token": lease.token,
        "worker": lease.holder.worker,
        "pid": lease.holder.pid,
        "activity_id": activity_id,
        "rows": dumps(rows),
    }
    return connection.execute(_DECLARE if anew else _UPDATE, values).first() is not None


def close_left_open(connection: Connection) -> int:
    """Close the phases of attempts that are over; how many."""
    return int(connection.execute(_LEFT_OPEN).scalar_one())
