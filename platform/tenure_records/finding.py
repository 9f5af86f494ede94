"""Finding objects by their computed fields, a page at a time, in one snapshot.

Stored values are searched in SQL where they are current. An object without current values, as during a rebuild, is
evaluated here, so what is found is what filtering every object in Python would find. Of those only so many are
evaluated for one page: then a page by id ends early, with a cursor, and a sorted one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator
from tenure_records import classes, locks, scope
from tenure_records.errors import RevisionConflict, ValuesOutOfDate
from tenure_records.filters import Filter
from tenure_records.freshness import Kind, judge
from tenure_records.ordering import Place, Sort
from tenure_records.query import Query, Superseded
from tenure_records.reading import Object, as_object, own_fields

MOST: Final = 1_000
EVALUATE_AT_MOST: Final = 10_000
_CHUNK: Final = 5_000
_TRIES: Final = 5


@dataclass(frozen=True)
class Found:
    """One page. `after` is the cursor of the next; None when nothing follows. A page may be shorter than asked for."""

    objects: list[Object]
    after: str | None


def find_objects(
    connection: Connection,
    class_name: str,
    *,
    where: Sequence[Filter] = (),
    order_by: Sequence[Sort] = (),
    after: str | None = None,
    limit: int = 100,
    evaluate_at_most: int = EVALUATE_AT_MOST,
    personal: Initiator | None = None,
) -> Found:
    """The objects for which every filter holds, by the sorts and then by id, with their computed fields.

    With `personal`, the reader, that person's own fields are shown and may be named, as `personal.KEY`: then every object
    is evaluated, as nothing of them is stored. `after` is the cursor of the page before. Needs a transaction; repairs
    nothing. Raises NoSuchClass, InvalidQuery, RevisionConflict when the definitions change all the time, and
    ValuesOutOfDate when a sorted page would need more than `evaluate_at_most` evaluations.
    """
    if not 1 <= limit <= MOST or evaluate_at_most < 0:
        raise UsageError(f"limit must be 1 to {MOST}, and evaluations at least 0")
    if locks.autocommits(connection):
        raise UsageError("find_objects needs a transaction: its rows are read while they come, in one snapshot")
    class_id = classes.class_id(connection, class_name)
    for _ in range(_TRIES):
        now, own = scope.current(connection, class_id), own_fields(connection, class_id, personal)
        query = Query(class_id, class_name, now, own, where, order_by, limit, evaluate_at_most)
        place = query.order.resumed(after, query.name) if after is not None else None
        try:
            return (_walk if query.order.by_id else _sorted)(connection, query, place)
        except Superseded:
            continue
    raise RevisionConflict(f"the fields of class {shortened(class_name)!r} keep changing: try again")


def _walk(connection: Connection, query: Query, place: Place | None) -> Found:
    """A page by id: on and on in chunks, until it is full, the class ends, or enough has been evaluated."""
    found: list[Object] = []
    evaluated, chunk, last = 0, query.limit + 1, place
    while True:
        seen, end, count = _chunk(connection, query, last, chunk)
        found += seen
        evaluated += count
        if len(found) > query.limit:
            return _page(query, found[: query.limit], more=True)
        if end is None:
            return _page(query, found, more=False)
        last = Place((), end)
        if evaluated >= query.evaluate_at_most:
            return Found(found, query.order.cursor(last, query.name))
        chunk = _CHUNK


def _chunk(
    connection: Connection, query: Query, place: Place | None, most: int
) -> tuple[list[Object], int | None, int]:
    """What is found next by id; the id up to which that is all, None for the end; how many were evaluated."""
    live_most = min(query.evaluate_at_most + 1, _CHUNK)
    seen: dict[int, Object] = {}
    ends = {False: 0, True: 0}  # the last id of those found by stored values, and of those without
    cut: list[bool] = []
    evaluated = 0
    for row in query.run(connection, place, most, live_most, set()):
        cut = [way for way, full in ((False, row.freshes >= most), (True, row.lives >= live_most)) if full]
        if row.place is None:
            break
        ends[row.live] = max(row.place, ends[row.live])
        if row.id is None or row.id in seen:
            continue  # a value whose object is gone, as a race with its deletion leaves; or found both ways
        judged = judge(row, query.now)
        evaluated += judged.kind is not Kind.FRESH or not query.in_sql
        one = as_object(row, judged.shown, query.own)
        if query.matches(one):
            seen[row.id] = one
        if len(seen) > 4 * (query.limit + 1):
            seen = {number: seen[number] for number in sorted(seen)[: query.limit + 1]}
    # Where one of the two was cut off, what the other has beyond that is not next.
    end = min((ends[way] for way in cut), default=None)
    return [seen[number] for number in sorted(seen) if end is None or number <= end], end, evaluated


def _sorted(connection: Connection, query: Query, place: Place | None) -> Found:
    """A sorted page: every object without current values is evaluated, and takes its place among the others."""
    distrusted: set[int] = set()
    for _ in range(_TRIES):
        kept: list[tuple[Place, Object]] = []
        wrong: set[int] = set()
        for row in query.run(connection, place, query.limit + 1, query.evaluate_at_most + 1, distrusted):
            if row.lives > query.evaluate_at_most:
                raise _too_many(query)
            if row.place is None:
                break
            judged = None if row.id is None else judge(row, query.now)
            if not row.live and (judged is None or judged.kind is not Kind.FRESH):
                wrong.add(row.place)
            if judged is None or wrong:
                continue
            one = as_object(row, judged.shown, query.own)
            at = query.place(one)
            if query.matches(one) and (place is None or query.order.is_after(at, place)):
                kept.append((at, one))
            if len(kept) > 4 * (query.limit + 1):
                kept = _first(query, kept)
        # Where stored values were wrong, SQL could not know what comes next: search again without them.
        if not wrong:
            page = [one for _, one in _first(query, kept)]
            return _page(query, page[: query.limit], more=len(page) > query.limit)
        distrusted |= wrong
    raise _too_many(query)


def _first(query: Query, kept: list[tuple[Place, Object]]) -> list[tuple[Place, Object]]:
    rows: list[tuple[Place, Object]] = query.order.arranged([(row[0], row) for row in kept])
    return rows[: query.limit + 1]


def _page(query: Query, objects: list[Object], *, more: bool) -> Found:
    return Found(objects, query.order.cursor(query.place(objects[-1]), query.name) if more else None)


def _too_many(query: Query) -> ValuesOutOfDate:
    if not query.in_sql:
        return ValuesOutOfDate(
            f"class {shortened(query.class_name)!r} has over {query.evaluate_at_most} objects, too many to sort by a personal "
            "field now: allow more evaluations, define a shared field, or do not sort"
        )
    return ValuesOutOfDate(
        f"over {query.evaluate_at_most} objects of class {shortened(query.class_name)!r} have no current values, too many "
        "to sort now: wait for its rebuild (`tenure records classes`), allow more evaluations, or do not sort"
    )
