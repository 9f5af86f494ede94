"""Finding objects by their computed fields, a page at a time, in one snapshot.

Stored values are searched in SQL where they are current. An object without current values, as during a rebuild, is
evaluated here, so what is found is what filtering every object in Python would find. Of those only so many are
evaluated for one page: then a page by id ends early, with a cursor, and a sorted one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator
from tenure_records import classes, freshness, scope
from tenure_records.computed import JsonValue
from tenure_records.errors import InvalidQuery, RevisionConflict, ValuesOutOfDate
from tenure_records.filters import MAX_FILTERS, Condition, Filter, condition, sql_sound
from tenure_records.freshness import Kind, judge
from tenure_records.ordering import Order, Place, Sort
from tenure_records.reading import Object, as_object, own_fields

MOST: Final = 1_000
EVALUATE_AT_MOST: Final = 10_000
PERSONAL: Final = "personal."
_CHUNK: Final = 5_000
_TRIES: Final = 5
# Rows come from the server so many at a time: ten thousand objects need not be in memory at once.
_STREAMED: Final = {"stream_results": True, "yield_per": 100}

# `fresh` is the first of what stored values say, `live` the objects without current values, both in one snapshot. They are
# looked for apart: joined first, every value of the class would go through the join (measured: four times as long).
_FIND: Final = f"""with fresh as materialized (
        select c.object_id as id from object_computed_data c
        where c.class_id = :class_id and c.evaluation_revision = :revision and {{sound}} and {{after}} and {{conditions}}
        order by {{order}} limit :most),
    live as materialized (
        select o.id from record_objects o where o.class_id = :class_id and {{window}} and not exists (
            select 1 from object_computed_data c where c.class_id = o.class_id and c.object_id = o.id
                and c.change_seq = o.change_seq and c.evaluation_revision = :revision and {{sound}})
        {{live_order}} limit :live_most),
    page as (select id, false as live from fresh union all select id, true from live)
    select p.id as place, p.live, (select count(*) from fresh) as freshes, (select count(*) from live) as lives,
        o.id, o.key, o.revision, o.change_seq, o.created_at, o.updated_at, o.data::text as data, {freshness.COLUMNS}
    from class_computation_state s left join page p on true
    left join record_objects o on o.class_id = :class_id and o.id = p.id
    left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id
    where s.class_id = :class_id"""
# By id only so much is looked through for objects without values as the page covers, or the class from there on.
_WINDOW: Final = """o.id > :place_id and o.id <= (select case when count(*) < :most then 9223372036854775807 else max(id) end
    from fresh)"""


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
    is evaluated, as nothing of them is stored. `after` is the cursor of the page before. Needs a transaction; repairs nothing. Raises NoSuchClass, InvalidQuery,
    and ValuesOutOfDate when a sorted page would need more than `evaluate_at_most` evaluations.
    """
    if not 1 <= limit <= MOST or evaluate_at_most < 0:
        raise UsageError(f"limit must be 1 to {MOST}, and evaluations at least 0")
    if connection.connection.dbapi_connection is not None and connection.connection.dbapi_connection.autocommit:
        raise UsageError("find_objects needs a transaction: its rows are read while they come, in one snapshot")
    class_id = classes.class_id(connection, class_name)
    for _ in range(_TRIES):
        now, own = scope.current(connection, class_id), own_fields(connection, class_id, personal)
        query = _Query(class_id, class_name, now, own, where, order_by, limit, evaluate_at_most)
        place = query.order.resumed(after, query.name) if after is not None else None
        try:
            return (_walk if query.order.by_id else _sorted)(connection, query, place)
        except _Superseded:
            continue
    raise RevisionConflict(f"the fields of class {shortened(class_name)!r} keep changing: try again")


class _Superseded(Exception):
    """The definitions changed between reading them and searching by them."""


@dataclass
class _Query:
    class_id: int
    class_name: str
    now: scope.Scope
    own: scope.Scope | None
    where: Sequence[Filter]
    order_by: Sequence[Sort]
    limit: int
    evaluate_at_most: int
    types: dict[str, str] = field(init=False)
    conditions: list[Condition] = field(init=False)
    order: Order = field(init=False)
    fields: list[str] = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        if len(self.where) > MAX_FILTERS:
            raise InvalidQuery(f"at most {MAX_FILTERS} filters")
        self.types, shapes = {**self.now.types}, {**self.now.shapes}
        if self.own is not None:
            self.types |= {PERSONAL + key: result_type for key, result_type in self.own.types.items()}
            shapes |= {PERSONAL + key: shape for key, shape in self.own.shapes.items()}
        self.conditions = [condition(one, self.types, number) for number, one in enumerate(self.where)]
        self.order = Order(self.order_by, self.types)
        self.fields = sorted({f.field for f in self.where} | {s.field for s in self.order_by})
        used = [shapes[key] for key in self.fields]
        self.name = repr((self.class_id, used, [(c.sql, c.parameters) for c in self.conditions], self.order.sql()))

    @property
    def in_sql(self) -> bool:
        """Whether stored values can answer it at all."""
        return not any(key.startswith(PERSONAL) for key in self.fields)

    def matches(self, one: Object) -> bool:
        values, errors = _all(one)
        return all(condition.matches(values, errors) for condition in self.conditions)

    def place(self, one: Object) -> Place:
        return self.order.place(_all(one)[0], one.id)

    def page(self, objects: list[Object], *, more: bool) -> Found:
        return Found(objects, self.order.cursor(self.place(objects[-1]), self.name) if more else None)

    def run(
        self, connection: Connection, place: Place | None, most: int, live_most: int, distrusted: set[int]
    ) -> Iterator[Row[Any]]:
        """The rows of one statement. Raises _Superseded before the first."""
        here: dict[str, object] = {
            "class_id": self.class_id, "revision": self.now.revision, "most": most, "live_most": live_most,
            "place_id": 0 if place is None else place.id,
        }  # fmt: skip
        sound = [sql_sound(key, self.types[key]) for key in self.fields] if self.in_sql else ["false"]
        if distrusted:
            sound.append("c.object_id <> all(cast(:distrusted as bigint[]))")
            here["distrusted"] = sorted(distrusted)
        after, parameters = ("true", {}) if place is None else self.order.sql_after(place)
        here |= parameters
        for one in self.conditions:
            here |= one.parameters
        statement = _FIND.format(
            sound=" and ".join(sound) or "true", after=after, order=self.order.sql(),
            conditions=" and ".join(one.sql for one in self.conditions) or "true",
            window=_WINDOW if self.order.by_id else "true", live_order="order by o.id" if self.order.by_id else "",
        )  # fmt: skip
        with connection.execute(text(statement), here, execution_options=_STREAMED) as rows:
            for row in rows:
                if row.wanted != self.now.revision:
                    raise _Superseded
                yield row


def _walk(connection: Connection, query: _Query, place: Place | None) -> Found:
    """A page by id: on and on in chunks, until it is full, the class ends, or enough has been evaluated."""
    found: list[Object] = []
    evaluated, chunk, last = 0, query.limit + 1, place
    while True:
        seen, end, count = _chunk(connection, query, last, chunk)
        found += seen
        evaluated += count
        if len(found) > query.limit:
            return query.page(found[: query.limit], more=True)
        if end is None:
            return query.page(found, more=False)
        last = Place((), end)
        if evaluated >= query.evaluate_at_most:
            return Found(found, query.order.cursor(last, query.name))
        chunk = _CHUNK


def _chunk(
    connection: Connection, query: _Query, place: Place | None, most: int
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


def _sorted(connection: Connection, query: _Query, place: Place | None) -> Found:
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
            return query.page(page[: query.limit], more=len(page) > query.limit)
        distrusted |= wrong
    raise _too_many(query)


def _first(query: _Query, kept: list[tuple[Place, Object]]) -> list[tuple[Place, Object]]:
    rows: list[tuple[Place, Object]] = query.order.arranged([(row[0], row) for row in kept])
    return rows[: query.limit + 1]


def _all(one: Object) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Values and errors of all fields, a person's own under their longer names."""
    assert one.computed is not None
    values, errors = one.computed.values, one.computed.errors
    if one.personal is not None:
        values = values | {PERSONAL + key: value for key, value in one.personal.values.items()}
        errors = errors | {PERSONAL + key: code for key, code in one.personal.errors.items()}
    return values, errors


def _too_many(query: _Query) -> ValuesOutOfDate:
    if not query.in_sql:
        return ValuesOutOfDate(
            f"class {shortened(query.class_name)!r} has over {query.evaluate_at_most} objects, too many to sort by a personal "
            "field now: allow more evaluations, define a shared field, or do not sort"
        )
    return ValuesOutOfDate(
        f"over {query.evaluate_at_most} objects of class {shortened(query.class_name)!r} have no current values, too many "
        "to sort now: wait for its rebuild (`tenure records classes`), allow more evaluations, or do not sort"
    )
