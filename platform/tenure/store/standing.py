"""Executions that somebody should look at: a member has ended, a turn has come, or nothing moves any more."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

AT_ONCE = 100

_NEXT_WAITING = text("""select id from executions where schedule_id = :id and state = 'waiting'
    order by due_at, id limit 1""")
_FORGET = text("delete from execution_due where execution_id = :id")
_PENDING = text(f"""select distinct execution_id from execution_due
    where created_at <= statement_timestamp() - make_interval(secs => :older) limit {AT_ONCE}""")
# Whatever was lost on the way: every member of the current group has ended, or a cancel has nobody left to stop.
_STUCK = text(f"""select x.id from executions x where x.finished_at is null
      and x.created_at <= statement_timestamp() - make_interval(secs => :older)
      and not exists (select 1 from tasks k where k.execution_id = x.id and k.finished_at is null
                      and k.state <> 'waiting' and (x.state = 'cancelling' or k.step_index = x.group_index))
      and (x.state <> 'waiting' or not exists (select 1 from executions o
          where o.schedule_id = x.schedule_id and o.finished_at is null and o.state <> 'waiting'))
    order by x.id limit {AT_ONCE}""")


def next_waiting(connection: Connection, schedule_id: UUID) -> UUID | None:
    """The execution of this schedule that waits for the one before it; of several the one that was due first."""
    found: UUID | None = connection.execute(_NEXT_WAITING, {"id": schedule_id}).scalar()
    return found


def pending(connection: Connection, *, older: float) -> list[UUID]:
    """Executions of which a member has ended at least `older` seconds ago, and nobody has looked since."""
    return list(connection.execute(_PENDING, {"older": older}).scalars())


def stuck(connection: Connection, *, older: float) -> list[UUID]:
    """Unfinished executions with nothing under way: the safety net."""
    return list(connection.execute(_STUCK, {"older": older}).scalars())


def forget(connection: Connection, execution_id: UUID) -> None:
    """Nothing is left to be done for it: it has ended, or is no more."""
    connection.execute(_FORGET, {"id": execution_id})
