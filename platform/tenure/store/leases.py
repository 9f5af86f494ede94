"""Leases: the fence, the renewal, what a worker holds. Claims write them, ends and recovery delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.records import Lease

_LIVE = "task_id = :task_id and token = :token and worker = :worker and pid = :pid and expires > clock_timestamp()"

# What a write of an attempt's phases begins with, as CTE bodies: both hold the lease until commit. The first also says
# that there are phases to close at the end.
PHASED = f"update task_leases set phased = true where {_LIVE} returning task_id"
STILL_PHASED = f"select task_id from task_leases where {_LIVE} and phased for key share"

_READ = text(f"select extract(epoch from expires - clock_timestamp())::float8 from task_leases where {_LIVE}")
# The last statement before COMMIT. FOR KEY SHARE: a renewal passes beside it, a steal waits for the commit.
_FENCE = text(f"select 1 from task_leases where {_LIVE} for key share")

# One statement for all leases of a worker. SKIP LOCKED: a row somebody holds keeps its old trust, nobody waits.
# Only tokens that stand in a slot, or are younger than the grace, are renewed: never "all of this worker's", else a
# claim whose answer was lost would be kept alive for ever with nobody running it.
# The tokens travel as one string: thousands of literals would be parsed as thousands of expressions.
_RENEW = text("""with
    free as (select ctid as place from task_leases
             where worker = :worker and expires > clock_timestamp()
               and (token = any(cast(:tokens as bigint[])) or acquired > clock_timestamp() - make_interval(secs => :grace))
             for no key update skip locked)
    update task_leases l set renewed = clock_timestamp(), expires = clock_timestamp() + make_interval(secs => :lease_seconds)
    from free where l.ctid = free.place and l.worker = :worker and l.expires > clock_timestamp()
    returning l.token, extract(epoch from l.deadline - clock_timestamp())::float8""")

# Asked only when a token was not renewed: skipped because somebody holds the row, or gone for good?
_STANDING = text("""select token, extract(epoch from deadline - clock_timestamp())::float8 from task_leases
    where worker = :worker and token = any(cast(:tokens as bigint[]))""")

_HOLDINGS = text("""select l.token, l.task_id, l.pid, l.acquired,
    exists (select 1 from task_stops s where s.task_id = l.task_id), coalesce(l.deadline <= statement_timestamp(), false),
    extract(epoch from statement_timestamp() - l.acquired)::float8
    from task_leases l where l.worker = :worker""")

_KIND = text("select kind from task_leases where worker = :worker and token = :token")
_HELD = text("select task_id, token from task_leases where worker = :worker and pid = :pid")


@dataclass(frozen=True)
class Renewal:
    """One lease after a renewal round: renewed or skipped, and the seconds left to its deadline."""

    token: int
    renewed: bool
    seconds_to_deadline: float | None


@dataclass(frozen=True)
class Holding:
    """One lease of a worker as it stands: who has it, since when, and whether it is to stop."""

    token: int
    task_id: UUID
    pid: int
    acquired: datetime
    cancel: bool
    late: bool
    age: float  # s since it was acquired


def _values(lease: Lease) -> dict[str, object]:
    return {"task_id": lease.task_id, "token": lease.token, "worker": lease.holder.worker, "pid": lease.holder.pid}


def live(connection: Connection, lease: Lease) -> bool:
    """Whether the lease stands by the database's clock. Takes no lock: a lock here would hold up every renewal."""
    return connection.execute(_READ, _values(lease)).first() is not None


def fence(connection: Connection, lease: Lease) -> bool:
    """Lock the lease against a steal until commit. False: it is lost, roll back."""
    return connection.execute(_FENCE, _values(lease)).first() is not None


def renew(
    connection: Connection, worker: UUID, tokens: Sequence[int], *, lease_seconds: float, grace: float
) -> list[Renewal]:
    """Renew every lease of this worker that a slot holds; a token absent from the answer is lost."""
    asked = "{" + ",".join(map(str, tokens)) + "}"
    values = {"worker": worker, "tokens": asked, "lease_seconds": lease_seconds, "grace": grace}
    renewed = {row[0]: Renewal(row[0], True, row[1]) for row in connection.execute(_RENEW, values)}
    missing = [token for token in tokens if token not in renewed]
    if missing:
        left = {"worker": worker, "tokens": "{" + ",".join(map(str, missing)) + "}"}
        standing = connection.execute(_STANDING, left)
        renewed |= {row[0]: Renewal(row[0], False, row[1]) for row in standing}
    return list(renewed.values())


def holdings(connection: Connection, worker: UUID) -> list[Holding]:
    """Every lease of this worker, with the stop requests and passed deadlines among them."""
    return [Holding(*row) for row in connection.execute(_HOLDINGS, {"worker": worker})]


def kind_of(connection: Connection, worker: UUID, token: int) -> str | None:
    """The kind this worker's token is for, or None when the lease is gone."""
    kind: str | None = connection.execute(_KIND, {"worker": worker, "token": token}).scalar()
    return kind


def held_by(connection: Connection, worker: UUID, pid: int) -> list[tuple[UUID, int]]:
    """[(task, token)] of one process: what to look at after a lost answer."""
    return [(r[0], r[1]) for r in connection.execute(_HELD, {"worker": worker, "pid": pid})]


_RUN_OUT = text("update task_leases set expires = clock_timestamp() - interval '1 second' where task_id = :task_id")


def run_out(connection: Connection, task_id: UUID) -> bool:
    """Let a lease run out now, whoever holds it: for tests of kinds. False: nobody holds the task."""
    return connection.execute(_RUN_OUT, {"task_id": task_id}).rowcount == 1
