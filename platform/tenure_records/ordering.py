"""The order of found objects, and where in it a page ends. The object's id is always the last key, so it is total.

Null is smaller than every value. Of a string the first 600 characters count: a cursor stays small whatever it points at.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument, JsonValue, decode, encode
from tenure_records.errors import InvalidQuery
from tenure_records.filters import SQL_TYPE, base, sql_value

MAX_SORTS: Final = 2
CURSOR_BYTES: Final = 64 * 1024
SORTED_CHARACTERS: Final = 600
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {"number": (int, Decimal), "string": (str,), "boolean": (bool,)}
)


@dataclass(frozen=True)
class Sort:
    """Order by a field, smallest first unless `descending`."""

    field: str
    descending: bool = False


@dataclass(frozen=True)
class Place:
    """A place in the order: the sort values of an object and its id."""

    values: tuple[JsonValue, ...]
    id: int


class Order:
    """An order over fields of these types. Raises InvalidQuery."""

    def __init__(self, sorts: Sequence[Sort], types: Mapping[str, str]) -> None:
        for sort in sorts:
            if sort.field not in types:
                raise InvalidQuery(
                    f"no enabled field {shortened(sort.field)!r}: {'use one of ' + ', '.join(sorted(types)) if types else 'there is none'}"
                )
            if types[sort.field] in ("object", "array"):
                raise InvalidQuery(f"{sort.field} is of type {types[sort.field]}, which has no order")
        if len(sorts) > MAX_SORTS or len({sort.field for sort in sorts}) != len(sorts):
            raise InvalidQuery(f"sort by at most {MAX_SORTS} fields, each once")
        self.sorts = tuple(sorts)
        self._types = [base(types[sort.field]) for sort in sorts]
        self._sql = [_cut(sql_value(sort.field, types[sort.field]), base(types[sort.field])) for sort in sorts]

    @property
    def by_id(self) -> bool:
        return not self.sorts

    def sql(self) -> str:
        """What follows ORDER BY, over the alias `c`."""
        ways = [
            f"{value} desc nulls last" if sort.descending else f"{value} asc nulls first"
            for value, sort in zip(self._sql, self.sorts, strict=True)
        ]
        return ", ".join([*ways, "c.object_id"])

    def sql_after(self, place: Place) -> tuple[str, dict[str, object]]:
        """The condition that an object comes after a place, and its parameters."""
        parameters: dict[str, object] = {"place_id": place.id}
        same: list[str] = []
        ways: list[str] = []
        for number, (value, sort, kind) in enumerate(zip(self._sql, self.sorts, self._types, strict=True)):
            at = place.values[number]
            name = f"place_{number}"
            parameter = f"cast(:{name} as {SQL_TYPE[kind]})"
            if at is not None:
                parameters[name] = at if isinstance(at, str | bool) else str(at)
            if sort.descending:
                beyond = "false" if at is None else f"({value} < {parameter} or {value} is null)"
            else:
                beyond = f"{value} is not null" if at is None else f"{value} > {parameter}"
            ways.append(" and ".join([*same, beyond]))
            same.append(f"{value} is null" if at is None else f"{value} = {parameter}")
        ways.append(" and ".join([*same, "c.object_id > :place_id"]))
        return "(" + " or ".join(f"({way})" for way in ways) + ")", parameters

    def place(self, values: Mapping[str, JsonValue], object_id: int) -> Place:
        """Where an object with these values stands."""
        found = (values[sort.field] for sort in self.sorts)
        return Place(tuple(v[:SORTED_CHARACTERS] if isinstance(v, str) else v for v in found), object_id)

    def is_after(self, one: Place, other: Place) -> bool:
        """Whether the first place comes after the second: what `sql_after` says, in Python."""
        for sort, mine, theirs in zip(self.sorts, one.values, other.values, strict=True):
            if mine != theirs:
                return (_rank(mine) > _rank(theirs)) is not sort.descending
        return one.id > other.id

    def arranged(self, places: list[tuple[Place, Any]]) -> list[Any]:
        """The second members, by the order of the first."""
        rows = sorted(places, key=lambda row: row[0].id)
        for number in reversed(range(len(self.sorts))):
            rows.sort(key=lambda row: _rank(row[0].values[number]), reverse=self.sorts[number].descending)
        return [row[1] for row in rows]

    def cursor(self, place: Place, query: str) -> str:
        """Text that stands for a place in the order of one query."""
        made = encode([_mark(query), place.id, list(place.values)])
        return base64.urlsafe_b64encode(made.encode()).decode()

    def resumed(self, cursor: str, query: str) -> Place:
        """The place of a cursor. Raises InvalidQuery when it is not one of this query."""
        try:
            if len(cursor) > CURSOR_BYTES:
                raise ValueError
            parts: Any = decode(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
            mark, object_id, values = parts
            place = Place(tuple(values), object_id)
            if mark != _mark(query) or type(object_id) is not int or not self._fits(place):
                raise ValueError
        except (ValueError, TypeError, binascii.Error, InvalidDocument):
            raise InvalidQuery(
                "the cursor is of another query, or the fields have changed since: begin without it"
            ) from None
        return place

    def _fits(self, place: Place) -> bool:
        return len(place.values) == len(self.sorts) and all(
            value is None or type(value) in _PYTHON[kind] for kind, value in zip(self._types, place.values, strict=True)
        )


def _cut(value: str, kind: str) -> str:
    return f"left({value}, {SORTED_CHARACTERS})" if kind == "string" else value


def _rank(value: JsonValue) -> tuple[bool, Any]:
    return value is not None, 0 if value is None else value


def _mark(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:16]
