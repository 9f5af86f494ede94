"""One question about a class: what it means over the fields of now, in Python and as the one statement that asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, text

from tenure_records import freshness, scope
from tenure_records.computed import JsonValue
from tenure_records.errors import InvalidQuery
from tenure_records.filters import MAX_FILTERS, Condition, Filter, condition, sql_sound
from tenure_records.ordering import Order, Place, Sort
from tenure_records.reading import Object

PERSONAL: Final = "personal."
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


class Superseded(Exception):
    """The definitions changed between reading them and searching by them."""


@dataclass
class Query:
    """What is asked, held against the fields of now. Raises InvalidQuery.

    `types` are those of all fields that may be named, `fields` those that are; `name` tells this query from others.
    """

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
        """Whether every filter holds."""
        values, errors = all_values(one)
        return all(condition.matches(values, errors) for condition in self.conditions)

    def place(self, one: Object) -> Place:
        """Where it stands in the order."""
        return self.order.place(all_values(one)[0], one.id)

    def run(
        self, connection: Connection, place: Place | None, most: int, live_most: int, distrusted: set[int]
    ) -> Iterator[Row[Any]]:
        """The rows of one statement: `most` by stored values, `live_most` without, after a place, see `_FIND`.

        Of `distrusted` objects no stored value counts. Raises Superseded before the first row.
        """
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
                    raise Superseded
                yield row


def all_values(one: Object) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Values and errors of all fields, a person's own under their longer names."""
    assert one.computed is not None
    values, errors = one.computed.values, one.computed.errors
    if one.personal is not None:
        values = values | {PERSONAL + key: value for key, value in one.personal.values.items()}
        errors = errors | {PERSONAL + key: code for key, code in one.personal.errors.items()}
    return values, errors
