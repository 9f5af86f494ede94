"""Checkpoints and progress: one row per task, updated in place, written inside the fenced page transaction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.records import Lease

# The task is read, never locked: a page must not hold up its own finish, nor a finish a page.
_LIVE = """exists (select 1 from task_leases l where l.task_id = :task_id and l.token = :token
      and l.worker = :worker and l.pid = :pid and l.expires > clock_timestamp())
      and exists (select 1 from tasks k where k.id = :task_id and k.state = 'running')"""

# Counters add up over pages and attempts; the sequence rises by one, so two writers of one sequence collide visibly.
_SAVE = text(f"""insert into task_checkpoints as c
        (task_id, sequence, token, cursor, total, processed, succeeded, failed, updated_at)
    select :task_id, 1, :token, cast(:cursor as jsonb), cast(:total as bigint), :processed, :succeeded, :failed, clock_timestamp()
    where {_LIVE} and (:expected = 0 or exists (select 1 from task_checkpoints o where o.task_id = :task_id))
    on conflict (task_id) do update set sequence = c.sequence + 1, token = excluded.token, cursor = excluded.cursor,
        total = coalesce(excluded.total, c.total), processed = c.processed + excluded.processed,
        succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed, updated_at = excluded.updated_at
    where c.token <= excluded.token and c.sequence = :expected
    returning sequence, total, processed, succeeded, failed""")

# Only for the very same request, and only where something was left undone. The old token is below every later one.
_CARRY = text("""insert into task_checkpoints (task_id, sequence, token, cursor, total, processed, succeeded, failed)
    select n.id, c.sequence, c.token, c.cursor, c.total, c.processed, c.succeeded, c.failed
    from tasks n join tasks o on o.id = n.retry_of and o.kind = n.kind and o.request_hash = n.request_hash
         join task_checkpoints c on c.task_id = o.id
    where n.id = :task_id and n.attempt = 0 and o.state in ('failed', 'cancelled')""")

_SEQUENCE = text("select sequence from task_checkpoints where task_id = :task_id")
_COUNTERS = text("select total, processed, succeeded, failed from task_checkpoints where task_id = :task_id")


@dataclass(frozen=True)
class Page:
    """What one page adds. `cursor` is JSON text; counts are of this page only; `total` is known or None."""

    cursor: str
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    total: int | None = None


@dataclass(frozen=True)
class Counters:
    """Of the whole task, over all its attempts."""

    total: int | None = None
    processed: int = 0
    succeeded: int = 0
    failed: int = 0


def counters(connection: Connection, lease: Lease) -> Counters:
    """What earlier attempts have committed."""
    row = connection.execute(_COUNTERS, {"task_id": lease.task_id}).first()
    return Counters() if row is None else Counters(*row)


def carry(connection: Connection, task_id: UUID) -> bool:
    """Let a retry start where the task it retries had got to. False: that had no checkpoint, or another request."""
    return connection.execute(_CARRY, {"task_id": task_id}).rowcount == 1


def sequence(connection: Connection, lease: Lease) -> int:
    """The sequence of the checkpoint as this transaction sees it, 0 for none."""
    return int(connection.execute(_SEQUENCE, {"task_id": lease.task_id}).scalar() or 0)


def save(connection: Connection, lease: Lease, expected: int, page: Page) -> tuple[int, Counters] | None:
    """Write the checkpoint after sequence `expected`; (new sequence, counters), or None: token or sequence superseded,
    or the task still plans (`begin` comes first)."""
    values = {
        "task_id": lease.task_id,
        "token": lease.token,
        "worker": lease.holder.worker,
        "pid": lease.holder.pid,
        "expected": expected,
        **vars(page),
    }
    row = connection.execute(_SAVE, values).first()
    return None if row is None else (row[0], Counters(*row[1:]))
