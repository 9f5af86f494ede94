"""Limits: how many may run at once, together, of a kind, in a scope. Claims count leases by them; nothing is counted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, text

from tenure.model.kinds import KindSpec
from tenure.store.transitions.parts import HINT_NOTIFY

What = Literal["global", "kind", "scope", "each scope"]

_SET = text("""insert into limits (what, name, at_most, set_by) values (:what, :name, :at_most, :by)
    on conflict (what, name) do update set at_most = excluded.at_most, set_by = excluded.set_by,
        updated_at = clock_timestamp()""")
# What a kind declares stays when an operator's own number goes.
_REMOVE = text("""with
    kept as (update limits set at_most = null, set_by = null, updated_at = clock_timestamp()
             where what = :what and name = :name and at_most is not null and declared is not null returning 1),
    gone as (delete from limits where what = :what and name = :name and declared is null returning 1)
    select (select count(*) from kept) + (select count(*) from gone)""")

# Workers start together, and would meet in another order of rows. Claims read on.
_ONE_AT_A_TIME = text("lock table limits in share row exclusive mode")
_DECLARE = text("""insert into limits (what, name, declared)
    select what, name, declared from unnest(cast(:whats as text[]), cast(:names as text[]), cast(:numbers as int[]))
        w(what, name, declared) order by what, name
    on conflict (what, name) do update set declared = excluded.declared, updated_at = clock_timestamp()
        where limits.declared is distinct from excluded.declared""")
_RETRACT = text("""with
    old as (select l.what, l.name, l.at_most from limits l
            where l.what in ('kind', 'each scope') and l.name = any(:kinds) and l.declared is not null
              and not exists (select 1 from unnest(cast(:whats as text[]), cast(:names as text[])) w(what, name)
                              where w.what = l.what and w.name = l.name)),
    kept as (update limits l set declared = null from old o
             where l.what = o.what and l.name = o.name and o.at_most is not null)
    delete from limits l using old o where l.what = o.what and l.name = o.name and o.at_most is null""")

_LIST = text("""select l.what, l.name, coalesce(l.at_most, l.declared) as at_most, l.declared, l.set_by, l.updated_at,
        case l.what when 'each scope' then null else (select count(*) from task_leases x
            where x.expires > clock_timestamp() and (l.what = 'global' or (l.what = 'kind' and x.kind = l.name)
                or (l.what = 'scope' and x.scope = l.name))) end as running
    from limits l order by l.what, l.name""")


def put(connection: Connection, what: What, name: str, at_most: int, *, by: str) -> None:
    """Let so many run at once from now on; what runs beyond that goes on. Wakes the dispatchers."""
    connection.execute(_SET, {"what": what, "name": name, "at_most": at_most, "by": by})
    connection.execute(text(HINT_NOTIFY))


def remove(connection: Connection, what: What, name: str) -> bool:
    """Forget the number an operator set; a kind's own holds again. False: none was set."""
    removed = bool(connection.execute(_REMOVE, {"what": what, "name": name}).scalar())
    if removed:
        connection.execute(text(HINT_NOTIFY))
    return removed


def declare(connection: Connection, specs: Sequence[KindSpec]) -> None:
    """Keep what these kinds declare, and forget what they declared before."""
    said = [
        (what, spec.name, number)
        for spec in specs
        for what, number in (("kind", spec.limit), ("each scope", spec.scope_limit))
        if number is not None
    ]
    whats, names, numbers = ([one[i] for one in said] for i in range(3))
    connection.execute(_ONE_AT_A_TIME)
    connection.execute(_RETRACT, {"kinds": [spec.name for spec in specs], "whats": whats, "names": names})
    connection.execute(_DECLARE, {"whats": whats, "names": names, "numbers": numbers})


def listing(connection: Connection) -> list[dict[str, Any]]:
    """what, name, at_most (what holds), declared, set_by, updated_at, running (None for `each scope`)."""
    return [dict(row) for row in connection.execute(_LIST).mappings()]
