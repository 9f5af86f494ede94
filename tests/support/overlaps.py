"""How many attempts stood beside each other, by history: what a limit promises, counted afterwards."""

from typing import Any

from sqlalchemy import Engine, text

# An end sorts before a start of the same moment: what began then had seen the end.
_MOST = """with spans as (
        select k.kind, k.scope, k.exclusive, a.created_at as began, a.ended_at from task_attempts a join tasks k on k.id = a.task_id
        union all select l.kind, l.scope, l.exclusive, l.acquired, clock_timestamp() from task_leases l),
    steps as (select {by} as what, began as at, 1 as step from spans where {where}
        union all select {by}, ended_at, -1 from spans where {where})
    select what, max(n) from (select what, sum(step) over (partition by what order by at, step) as n from steps) s
    group by what order by what"""

_BESIDE = """with spans as (
        select a.token, k.scope, k.exclusive, a.created_at as began, a.ended_at from task_attempts a join tasks k on k.id = a.task_id)
    select count(*) from spans x join spans y on x.exclusive and y.token <> x.token
        and (x.scope is null or x.scope = y.scope) and y.began < x.ended_at and x.began < y.ended_at"""


def most(engine: Engine, by: str, where: str = "true") -> dict[Any, int]:
    """The largest number of attempts at one moment, for each value of `by` (kind, scope, or '' for all)."""
    with engine.connect() as connection:
        rows = connection.execute(text(_MOST.format(by=by or "''", where=where)))
        return {row[0]: int(row[1]) for row in rows}


def beside_exclusive(engine: Engine) -> int:
    """How many pairs of attempts overlap although one of them was to run alone."""
    with engine.connect() as connection:
        return int(connection.execute(text(_BESIDE)).scalar_one())
