"""Worker rows: who is there, what it serves, when it was last seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select, text

from tenure.store.tables import workers

_REGISTER = text("""insert into workers (boot_id, node, role, pid, instance, version, slots, queues, kinds)
    values (:boot_id, :node, :role, :pid, :instance, :version, :slots, :queues, :kinds)
    on conflict (boot_id) do update set last_seen = clock_timestamp(), ended_at = null
    where workers.boot_id = excluded.boot_id""")
# A row that somebody has locked is skipped: it is a notice, and who writes it has leases to renew.
_SEEN = text("""with
    free as (select boot_id from workers where boot_id = :boot_id and ended_at is null for no key update skip locked),
    u as (update workers set last_seen = clock_timestamp(), work = cast(:work as text)
          where boot_id = any(array(select boot_id from free)) and ended_at is null)
    select exists (select 1 from workers where boot_id = :boot_id and ended_at is null)""")
_ENDED = text(
    "update workers set ended_at = clock_timestamp(), work = null where boot_id = :boot_id and ended_at is null"
)
_HOLDING = text("""select distinct w.boot_id, w.instance from workers w join task_leases l on l.worker = w.boot_id
    where w.node = :node and w.boot_id <> :boot_id and w.instance <> ''""")


@dataclass(frozen=True)
class Boot:
    """One process that runs tasks or services, from its start to its end."""

    boot_id: UUID
    node: str
    role: str
    pid: int
    version: str
    slots: int
    queues: Sequence[str]
    kinds: Sequence[str]
    instance: str = ""


def register(connection: Connection, boot: Boot) -> None:
    connection.execute(_REGISTER, {**vars(boot), "queues": list(boot.queues), "kinds": list(boot.kinds)})


def seen(connection: Connection, boot_id: UUID, work: str | None = None) -> bool:
    """Say that the process lives. False: its row is gone or ended (housekeeping took it): register again."""
    return bool(connection.execute(_SEEN, {"boot_id": boot_id, "work": work}).scalar())


def ended(connection: Connection, boot_id: UUID) -> None:
    connection.execute(_ENDED, {"boot_id": boot_id})


def holding(connection: Connection, node: str, boot_id: UUID) -> list[tuple[UUID, str]]:
    """[(boot, instance)] of other boots of this node that still hold leases."""
    return [(r[0], r[1]) for r in connection.execute(_HOLDING, {"node": node, "boot_id": boot_id})]


def listing(connection: Connection) -> list[dict[str, Any]]:
    """All rows, newest first."""
    return [dict(r) for r in connection.execute(select(workers).order_by(workers.c.started_at.desc())).mappings()]
