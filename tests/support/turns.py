"""Whether tasks began in the order of their turns (priority and age as one time), by history."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Engine, text

Span = tuple[datetime, datetime]

# Only tasks that nothing but their turn holds back; a task counts from its first attempt.
_STARTS = """select k.created_at, k.available_at - k.priority * make_interval(secs => :ageing) as turn, min(a.created_at) as began
    from tasks k join task_attempts a on a.task_id = k.id
    where k.kind = :kind and k.scope is null and not k.exclusive group by k.id order by began"""


def overtaken_for(engine: Engine, kind: str, ageing: float, standing: Sequence[Span] = ()) -> Sequence[float]:
    """For each task of `kind` in the order of starts: how long (s) others of a later turn began before it did.

    Nought for a task that nobody overtook. `ageing` is what a step of priority is worth, s. Time in `standing` does not
    count: nobody could begin.
    """
    with engine.connect() as connection:
        rows = connection.execute(text(_STARTS), {"kind": kind, "ageing": ageing}).all()
    found = []
    for number, row in enumerate(rows):
        passed = [one.began for one in rows[:number] if one.turn > row.turn and one.began > row.created_at]
        found.append(_seconds(min(passed), row.began, standing) if passed else 0.0)
    return found


def _seconds(since: datetime, until: datetime, standing: Sequence[Span]) -> float:
    lost = [(min(until, end) - max(since, start)).total_seconds() for start, end in standing]
    return (until - since).total_seconds() - sum(max(0.0, one) for one in lost)


def begun_between(engine: Engine, kind: str | None, since: datetime, until: datetime) -> int:
    """How many attempts (of `kind`, or at all) began in this time."""
    query = """select count(*) from task_attempts a join tasks k on k.id = a.task_id
        where (cast(:kind as text) is null or k.kind = :kind) and a.created_at between :since and :until"""
    with engine.connect() as connection:
        return int(connection.execute(text(query), {"kind": kind, "since": since, "until": until}).scalar_one())
