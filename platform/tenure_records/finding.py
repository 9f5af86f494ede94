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

# `live` are the objects without current values. In a sorted page they come first, so that the limit takes all of them.
_FIND: Final = f"""with state as materialized (
        select s.evaluation_revision from class_computation_state s where s.class_id = :class_id),
    hits as materialized (
        select o.id, c.object_id is null as live {{keys}} from state s cross join record_objects o
        left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id
            and c.change_seq = o.change_seq and c.evaluation_revision = s.evaluation_revision
            and not (o.id = any(cast(:distrusted as bigint[]))) {{sound}}
        where o.class_id = :class_id and {{window}} and (c.object_id is null or ({{fresh}}))
        order by {{order}} limit :most),
    page as ((select id from hits where live) union all (select id from hits where not live {{cut}}))
    select o.id, o.key, o.revision, o.change_seq, o.created_at, o.updated_at, o.data::text as data,
        (select count(*) from hits where live) as live, (select count(*) from hits) as hits, {freshness.COLUMNS}
    from state s left join page p on true
    left join record_objects o on o.class_id = :class_id and o.id = p.id
    left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id"""


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
        self, connection: Connection, place: Place | None, most: int, distrusted: Sequence[int]
    ) -> Iterator[Row[Any]]:
        """The rows of one statement. Raises _Superseded before the first."""
        fresh = [one.sql for one in self.conditions] or ["true"]
        window, order, keys, cut = "true", "o.id", "", ""
        here: dict[str, object] = {"class_id": self.class_id, "most": most, "distrusted": sorted(distrusted)}
        for one in self.conditions:
            here |= one.parameters
        if self.order.by_id:
            if place is not None:
                window, here["place_id"] = "o.id > :place_id", place.id
        else:
            order, keys = f"live desc, {self.order.sql()}", self.order.sql_keys()
            cut, here["cut"] = f"order by {self.order.sql_by_keys()} limit :cut", self.limit + 1
            if place is not None:
                after, parameters = self.order.sql_after(place)
                fresh, here = [*fresh, after], here | parameters
        sound = (
            "".join(f" and {sql_sound(key, self.types[key])}" for key in self.fields) if self.in_sql else "and false"
        )
        statement = _FIND.format(sound=sound, window=window, order=order, keys=keys, cut=cut, fresh=" and ".join(fresh))
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
        hits = 0
        for row in query.run(connection, last, chunk, ()):
            hits = row.hits
            if row.id is None:
                break
            judged = judge(row, query.now)
            evaluated += judged.kind is not Kind.FRESH or not query.in_sql
            one = as_object(row, judged.shown, query.own)
            last = Place((), max(row.id, last.id if last else 0))
            if query.matches(one):
                found.append(one)
            if len(found) > 4 * (query.limit + 1):
                found = sorted(found, key=lambda one: one.id)[: query.limit + 1]
        found.sort(key=lambda one: one.id)
        if len(found) > query.limit:
            return query.page(found[: query.limit], more=True)
        if hits < chunk:
            return query.page(found, more=False)
        if evaluated >= query.evaluate_at_most:
            assert last is not None
            return Found(found, query.order.cursor(last, query.name))
        chunk = _CHUNK


def _sorted(connection: Connection, query: _Query, place: Place | None) -> Found:
    """A sorted page: every object without current values is evaluated, and takes its place among the others."""
    distrusted: set[int] = set()
    for _ in range(_TRIES):
        most = query.evaluate_at_most + query.limit + 2
        kept: list[tuple[Place, Object]] = []
        corrupt: set[int] = set()
        for row in query.run(connection, place, most, tuple(distrusted)):
            if row.live > query.evaluate_at_most:
                raise _too_many(query)
            if row.id is None:
                break
            judged = judge(row, query.now)
            if judged.kind is Kind.CORRUPT and row.id not in distrusted and query.in_sql:
                corrupt.add(row.id)
            one = as_object(row, judged.shown, query.own)
            at = query.place(one)
            if query.matches(one) and (place is None or query.order.is_after(at, place)):
                kept.append((at, one))
            if len(kept) > 4 * (query.limit + 1):
                kept = _first(query, kept)
        # What SQL took for fresh and is not stands at a place that SQL could not know: search again without it.
        if not corrupt:
            page = [one for _, one in _first(query, kept)]
            return query.page(page[: query.limit], more=len(page) > query.limit)
        distrusted |= corrupt
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
