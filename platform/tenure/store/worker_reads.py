"""The processes that run or ran here, as `workers list` and `doctor` show them. Reads only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

_LIST = text("""select w.boot_id, w.node, w.role, w.pid, w.version, w.slots, w.queues, w.kinds, w.work,
       w.started_at, w.last_seen, w.ended_at, extract(epoch from clock_timestamp() - w.last_seen)::float8 as silent_seconds,
       (select count(*) from task_leases l where l.worker = w.boot_id) as leases,
       case when w.ended_at is not null then 'ended'
            when w.last_seen < clock_timestamp() - make_interval(secs => :overdue) then 'overdue' else 'live' end as status
  from workers w
 where :everything or (w.ended_at is null and w.last_seen > clock_timestamp() - interval '1 hour')
    or exists (select 1 from task_leases l where l.worker = w.boot_id)
 order by w.node, w.role, w.started_at""")


def listing(connection: Connection, *, overdue: float, everything: bool = False) -> list[dict[str, Any]]:
    """Processes with `status` live, overdue (silent for more than `overdue` seconds) or ended.

    Without `everything`: those not ended and seen within the hour, and whoever still stands in a lease.
    """
    return [dict(r) for r in connection.execute(_LIST, {"overdue": overdue, "everything": everything}).mappings()]
