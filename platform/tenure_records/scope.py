"""The computed fields of one class, compiled: the shared ones as they stand at one evaluation revision, or a person's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, text

from tenure_records.computed import CODES, Definition, Evaluator, JsonValue, Operation
from tenure_records.errors import NoSuchClass

# As text: equal text means an equal evaluator, so compiled ones can be kept without asking which database they are of.
DEFINITIONS: Final = """(select coalesce(jsonb_agg(jsonb_build_array(d.key, d.op, d.paths, d.result_type) order by d.key), '[]')::text
    from computed_field_definitions d where d.class_id = {class_id} and d.visibility = 'shared' and d.enabled)"""

_PERSONAL = text("""select coalesce(jsonb_agg(jsonb_build_array(d.key, d.op, d.paths, d.result_type) order by d.key), '[]')::text
    from computed_field_definitions d
    where d.class_id = :class_id and d.visibility = 'personal' and d.owner = :owner and d.enabled""")
_CURRENT = text(f"""select s.evaluation_revision, {DEFINITIONS.format(class_id="s.class_id")}
    from class_computation_state s where s.class_id = :class_id""")


_TYPE_OF: Final[dict[type, str]] = {
    str: "string", bool: "boolean", int: "integer", Decimal: "number", dict: "object", list: "array",
}  # fmt: skip
_MAY_BE: Final = {**{name: (name,) for name in _TYPE_OF.values()}, "number": ("integer", "number")}


@dataclass(frozen=True)
class Scope:
    """What decides the values of a class: `empty` when no field is enabled, and then nothing is materialised.

    `types` are the result types by key, `shapes` what decides a field's values: operation, paths and type, as text.
    """

    class_id: int
    revision: int
    evaluator: Evaluator
    types: dict[str, str]
    shapes: dict[str, str]

    @property
    def empty(self) -> bool:
        return not self.types

    def fits(self, values: dict[str, JsonValue], errors: dict[str, JsonValue]) -> bool:
        """Whether stored values are of a form that these definitions could have given."""
        return (
            values.keys() == self.types.keys()
            and all(isinstance(code, str) and code in CODES for code in errors.values())
            and all(values.get(key, key) is None for key in errors)
            and all(
                value is None or _TYPE_OF.get(type(value)) in _MAY_BE[self.types[key]] for key, value in values.items()
            )
        )


def current(connection: Connection, class_id: int) -> Scope:
    """The scope now. Who is going to write by it holds the class lock already. Raises NoSuchClass."""
    found = current_or_none(connection, class_id)
    if found is None:
        raise NoSuchClass(f"class {class_id} has been dropped")
    return found


def current_or_none(connection: Connection, class_id: int) -> Scope | None:
    """`current`, or None for a class that has been dropped."""
    row = connection.execute(_CURRENT, {"class_id": class_id}).first()
    return None if row is None else scope(class_id, row[0], row[1])


def personal(connection: Connection, class_id: int, owner: str) -> Scope:
    """A person's own fields now. They have no evaluation revision: nothing of them is stored."""
    found = connection.execute(_PERSONAL, {"class_id": class_id, "owner": owner}).scalar_one()
    return scope(class_id, 0, found)


def scope(class_id: int, revision: int, definitions: str) -> Scope:
    """A scope from the text that DEFINITIONS selects."""
    return Scope(class_id, revision, *_compiled(definitions))


@lru_cache(maxsize=256)
def _compiled(definitions: str) -> tuple[Evaluator, dict[str, str], dict[str, str]]:
    rows: list[Any] = msgspec.json.decode(definitions)
    # Not `define`: what is stored was checked when it was stored, and this runs on the write path.
    made = [Definition(key, key, Operation(op, tuple(paths)), type_) for key, op, paths, type_ in rows]
    types = {definition.key: definition.result_type for definition in made}
    return Evaluator(made), types, {row[0]: msgspec.json.encode(row).decode() for row in rows}
