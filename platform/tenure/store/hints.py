"""Hints: what is to be published to the broker. A hint carries no truth; losing or doubling one changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from tenure.store.transitions.claim import has_room
from tenure.store.transitions.parts import HINTED, hint

LIVE_SECONDS = 15  # a worker row older than this is overdue

# Hints that a claim would refuse for want of room stay here: a message each, again and again, would be for nothing.
_DUE = f"""h.kind = any(:kinds) and (h.not_before is null or h.not_before <= statement_timestamp())
          and not exists (select 1 from pauses p where p.what = 'kind' and p.name = h.kind)
          and not exists (select 1 from pauses p where p.what = 'queue' and p.name = h.queue)
          and {has_room("(select rules_full('{}'))")}"""

# Never touches tasks: the row would be locked while the claim of what was just sent comes in.
_TAKE = text(f"""delete from task_hints where id = any(array(
        select h.id from task_hints h where h.queue = :queue and {_DUE}
        order by h.turn, h.id limit :room for update skip locked))
    returning task_id::text, kind, queue, turn, id""")

_WAITING = text(f"""select q from unnest(cast(:queues as text[])) q
    where exists (select 1 from task_hints h where h.queue = q and {_DUE})""")

_LOST = text(f"""with lost as (select {HINTED} from tasks k
        where k.state = 'queued' and k.queue = any(:queues) and k.available_at <= statement_timestamp() - make_interval(secs => :older)
          and not exists (select 1 from task_hints h where h.task_id = k.id) limit 1000)
    {hint("lost")}""")

_ALL_LOST = text(f"""with lost as (select {HINTED} from tasks k
        where k.state = 'queued' and not exists (select 1 from task_hints h where h.task_id = k.id))
    {hint("lost")}""")

_SERVED = text("""select q, sum(w.slots)::int, array(select distinct k from workers v, unnest(v.kinds) k
               where v.role = 'worker' and v.ended_at is null and v.last_seen > clock_timestamp() - make_interval(secs => :live))
    from workers w, unnest(w.queues) q
    where w.role = 'worker' and w.ended_at is null and w.last_seen > clock_timestamp() - make_interval(secs => :live)
    group by q order by q""")

_SEED_STATE = text("insert into broker_state (epoch, run_id) values (:epoch, '') on conflict (id) do nothing")
_STATE = text("select epoch::text, run_id from broker_state where id = 1")
_STATE_LOCKED = text("select epoch::text, run_id from broker_state where id = 1 for update")
_SET_STATE = text("""update broker_state set epoch = :epoch, run_id = :run_id, updated_at = clock_timestamp()
    where id = 1 and epoch = cast(:before as uuid)""")
# One of several dispatchers says it; the others find it said, or being said.
_REACHED = text("""update broker_state set updated_at = clock_timestamp() where id = any(array(
    select id from broker_state where id = 1 and updated_at < clock_timestamp() - make_interval(secs => :pace)
    for no key update skip locked))""")


@dataclass(frozen=True)
class Hint:
    task_id: str
    kind: str
    queue: str


@dataclass(frozen=True)
class Served:
    """A queue that live workers consume: their slots together, and the kinds any of them knows."""

    queue: str
    slots: int
    kinds: list[str]


def served(connection: Connection) -> list[Served]:
    """Queues with a live worker. What nobody serves stays in the database, not in the broker."""
    return [Served(r[0], r[1], list(r[2])) for r in connection.execute(_SERVED, {"live": LIVE_SECONDS})]


def take(connection: Connection, served: Served, room: int) -> list[Hint]:
    """Delete up to `room` hints, best first; commit only after they were published."""
    rows = connection.execute(_TAKE, {"queue": served.queue, "kinds": served.kinds, "room": room}).all()
    rows = sorted(rows, key=lambda r: (r[3], r[4]))  # DELETE returns them in no order
    return [Hint(r[0], r[1], r[2]) for r in rows]


def waiting(connection: Connection, served: Sequence[Served]) -> set[str]:
    """Those of these queues that have a hint to take."""
    kinds = sorted({kind for queue in served for kind in queue.kinds})
    values = {"queues": [queue.queue for queue in served], "kinds": kinds}
    return {row[0] for row in connection.execute(_WAITING, values)}


def hint_again(connection: Connection, queues: Sequence[str], *, older: float) -> int:
    """Hint queued tasks that have had none for `older` seconds: the loss net.

    `older` must leave time for a message to be taken: long for a queue where messages wait in the broker.
    """
    return connection.execute(_LOST, {"queues": list(queues), "older": older}).rowcount


def broker_state(connection: Connection) -> tuple[str, str]:
    """(epoch, run id) of the broker that holds our messages."""
    row = connection.execute(_STATE).first()
    if row is None:
        connection.execute(_SEED_STATE, {"epoch": uuid4()})
        row = connection.execute(_STATE).one()
    return row[0], row[1]


def broker_reached(connection: Connection, *, pace: float) -> None:
    """Say that a dispatcher reaches the broker, if nobody has for `pace` seconds: `why` tells by it that none does."""
    connection.execute(_REACHED, {"pace": pace})


def broker_changed(connection: Connection, epoch_seen: str | None, run_id: str) -> tuple[str, int]:
    """The broker was flushed, restarted or replaced: hint every queued task again; (epoch to set in it, hints made).

    Under the row's lock, so that of several dispatchers one does it. Set the epoch in the broker after the commit.
    """
    epoch, known = connection.execute(_STATE_LOCKED).one()
    if epoch_seen == epoch and known == run_id:
        return epoch, 0
    made = connection.execute(_ALL_LOST).rowcount
    fresh = str(uuid4())
    if connection.execute(_SET_STATE, {"epoch": UUID(fresh), "run_id": run_id, "before": epoch}).rowcount != 1:
        return epoch, 0
    return fresh, made
