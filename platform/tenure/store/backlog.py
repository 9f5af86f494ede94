"""How much lies where: live tasks by kind and queue. Each part reads one partial index, never the whole table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

_COUNTS = text("""
    select kind, queue, 'queued' as state, count(*) as n, min(available_at) as oldest from tasks where state = 'queued' group by 1, 2
    union all
    select kind, queue, 'scheduled', count(*), min(available_at) from tasks where state = 'scheduled' group by 1, 2
    union all
    select kind, queue, 'active', count(*), min(acquired) from task_leases group by 1, 2""")

_KNOWN = {
    "kind": text("""select exists (select 1 from tasks where kind = :name)
        or exists (select 1 from workers where :name = any(kinds))"""),
    "queue": text("""select exists (select 1 from tasks where state = 'queued' and queue = :name)
        or exists (select 1 from task_leases where queue = :name) or exists (select 1 from workers where :name = any(queues))"""),
}


def counts(connection: Connection) -> list[dict[str, Any]]:
    """kind, queue, state (queued, scheduled or active), n, oldest."""
    return [dict(row) for row in connection.execute(_COUNTS).mappings()]


def known(connection: Connection, what: str, name: str) -> bool:
    """Whether a kind or queue of that name was ever seen here: on a task or in a worker."""
    return bool(connection.execute(_KNOWN[what], {"name": name}).scalar())
