"""What `doctor` asks of the database. Reads only; each question is one short statement."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

_SERVER = text("""select current_setting('server_version_num')::int / 10000 as version, pg_is_in_recovery() as standby,
       extract(epoch from clock_timestamp())::float8 as clock""")
# A month counts as prepared when every history table has its partition; the current month is not ahead of anything.
_AHEAD = text("""select count(*) from generate_series(1, 24) i,
       lateral (select to_char(date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => i), 'YYYYMM') as m) n
 where to_regclass('task_attempts_' || m) is not null and to_regclass('task_events_' || m) is not null
   and to_regclass('activity_items_' || m) is not null""")
# Half a lease over is an ordinary wait for the sweep; later than that nobody sweeps.
_EXPIRED = text("""select count(*), coalesce(max(extract(epoch from clock_timestamp() - expires)), 0)::float8 from task_leases
 where expires < clock_timestamp() - interval '5 seconds'""")
_UNSERVED = text("""select q.kind, q.queue, count(*) as n, min(q.available_at) as oldest from tasks q
 where q.state = 'queued' and not exists (select 1 from workers w where w.role = 'worker' and w.ended_at is null
       and w.last_seen > clock_timestamp() - make_interval(secs => :overdue)
       and q.kind = any(w.kinds) and q.queue = any(w.queues))
 group by 1, 2 order by 3 desc""")
_PAUSED = text("""select q.kind, q.queue, q.n, p.what, p.name, p.paused_by
 from (select kind, queue, count(*) as n from tasks where state = 'queued' group by 1, 2) q
 cross join lateral (select what, name, paused_by from pauses
       where (what = 'kind' and name = q.kind) or (what = 'queue' and name = q.queue) order by what limit 1) p
 order by q.n desc""")
_OLD = text("""select pid, usename, application_name, state, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
  from pg_stat_activity where datname = current_database() and xact_start < clock_timestamp() - make_interval(secs => :seconds)
   and pid <> pg_backend_pid() and backend_type = 'client backend' order by xact_start""")
_DUE = text(
    """select count(*) from tasks where state = 'scheduled' and available_at < statement_timestamp() - interval '10 seconds'"""
)


_LATE_SCHEDULES = text("""select count(*), coalesce(max(extract(epoch from statement_timestamp() - next_run_at)), 0)::float8
  from schedules where enabled and paused_by is null and next_run_at < statement_timestamp() - interval '10 seconds'""")


def late_schedules(connection: Connection) -> tuple[int, float]:
    """How many schedules have been due for 10 s, and for how many seconds the longest: nobody fires them."""
    number, seconds = connection.execute(_LATE_SCHEDULES).one()
    return int(number), float(seconds)


def server(connection: Connection) -> dict[str, Any]:
    """version (major), standby, clock (epoch seconds)."""
    return dict(connection.execute(_SERVER).mappings().one())


def months_ahead(connection: Connection) -> int:
    """Months after this one for which all history tables have a partition (at most 24 are looked at)."""
    return int(connection.execute(_AHEAD).scalar_one())


def expired_leases(connection: Connection) -> tuple[int, float]:
    """How many leases expired more than 5 s ago, and for how many seconds the oldest."""
    number, seconds = connection.execute(_EXPIRED).one()
    return int(number), float(seconds)


def overdue_promotions(connection: Connection) -> int:
    """Scheduled tasks that were due 10 s ago: no reaper has seen them."""
    return int(connection.execute(_DUE).scalar_one())


def unserved(connection: Connection, *, overdue: float) -> list[dict[str, Any]]:
    """kind, queue, n, oldest of queued tasks that no live worker would take."""
    return [dict(row) for row in connection.execute(_UNSERVED, {"overdue": overdue}).mappings()]


def paused(connection: Connection) -> list[dict[str, Any]]:
    """kind, queue, n of queued tasks that a pause holds; what, name and paused_by of it (one, where both are paused)."""
    return [dict(row) for row in connection.execute(_PAUSED).mappings()]


def old_transactions(connection: Connection, *, seconds: float) -> list[dict[str, Any]]:
    """pid, usename, application_name, state, seconds of transactions older than `seconds`, oldest first."""
    return [dict(row) for row in connection.execute(_OLD, {"seconds": seconds}).mappings()]
