"""The figures of /metrics: how many tasks are where. Each reads one partial index or the leases, never all of `tasks`."""

from __future__ import annotations

from sqlalchemy import Connection, text

ENDED_WITHIN = 300  # s

_LIVE = text("""
    select 'queued', kind, count(*) from tasks where state = 'queued' group by kind
    union all
    select 'scheduled', kind, count(*) from tasks where state = 'scheduled' group by kind
    union all
    select k.state, k.kind, count(*) from task_leases l join tasks k on k.id = l.task_id group by k.state, k.kind""")
_ENDED = text(f"""select state, kind, count(*) from tasks
    where finished_at > statement_timestamp() - interval '{ENDED_WITHIN} seconds' group by state, kind""")
_OLDEST = text("""select queue, extract(epoch from statement_timestamp() - min(available_at))::float8 from tasks
    where state = 'queued' and available_at <= statement_timestamp() group by queue""")


def live(connection: Connection) -> list[tuple[str, str, int]]:
    """[(state, kind, tasks)] of queued, scheduled and claimed tasks."""
    return [(r[0], r[1], r[2]) for r in connection.execute(_LIVE)]


def ended(connection: Connection) -> list[tuple[str, str, int]]:
    """[(state, kind, tasks)] that ended within the last ENDED_WITHIN seconds."""
    return [(r[0], r[1], r[2]) for r in connection.execute(_ENDED)]


def oldest(connection: Connection) -> list[tuple[str, float]]:
    """[(queue, seconds)] since the oldest queued task of each became due."""
    return [(r[0], r[1]) for r in connection.execute(_OLDEST)]
