"""The first line of an export: the class with its description, bounds, fields and schema; made anew, or compared."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection

from tenure.model.errors import Refused, UsageError, shortened
from tenure.model.records import Initiator
from tenure_records import classes
from tenure_records.computed import Definition, JsonValue, decode, encode
from tenure_records.errors import NoSuchClass
from tenure_records.fields import define_field, list_fields
from tenure_records.ndjson.envelope import CLASS
from tenure_records.ndjson.outcomes import LineRefused
from tenure_records.retention import get_retention, set_retention
from tenure_records.schemas.activation import activate
from tenure_records.schemas.revisions import open_revisions, propose_schema, text_of

MEMBER = CLASS
Begin = Callable[[], AbstractContextManager[Connection]]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldLine(_Strict):
    key: str
    op: str
    paths: list[str]
    result_type: str
    label: str | None = None
    description: str = ""
    enabled: bool = True


class SchemaLine(_Strict):
    """`mode` None: only proposed."""

    mode: Literal["advisory", "strict"] | None = None
    schema_: Annotated[Any, Field(alias="schema")]


class ClassLine(_Strict):
    """`name` is for people: what is imported goes into the class that was asked for."""

    name: str = ""
    description: str = ""
    keep_days: float | None = None
    keep_newest: int | None = None
    fields: list[FieldLine] = []
    schema_: Annotated[SchemaLine | None, Field(alias="schema")] = None


def described(connection: Connection, class_name: str) -> str:
    """The line of a class, as export writes it, without its line feed. Raises NoSuchClass."""
    found, bounds = classes.get_class(connection, class_name), get_retention(connection, class_name)
    line: dict[str, Any] = {
        "name": found.name, "description": found.description,
        "fields": [_field(one) for one in list_fields(connection, class_name)],
    }  # fmt: skip
    line |= {name: value for name, value in _bounds(bounds.keep_days, bounds.keep_newest).items() if value is not None}
    opened = open_revisions(connection, found.id)
    if (schema := opened.get("active") or opened.get("proposed")) is not None:
        line["schema"] = {"mode": schema.mode, "schema": decode(text_of(connection, schema.id) or "null")}
    return encode({MEMBER: line})


def apply(begin: Begin, class_name: str, given: JsonValue, initiator: Initiator) -> bool:
    """Make the class as the line says, or what is missing of it; all in one transaction. False: it is so already.

    Raises LineRefused naming what stands against it; nothing is changed then.
    """
    line = _line(given)
    with begin() as connection:
        changed, class_id = _class(connection, class_name, line)
        for position, field in enumerate(line.fields):
            changed |= _define(connection, class_name, position, field, initiator)
        empty = classes.count_objects(connection, class_id) == 0 if line.schema_ else False
        proposed = line.schema_ is not None and _propose(connection, class_name, class_id, line.schema_, initiator)
    if line.schema_ is not None and line.schema_.mode is not None and empty and proposed:
        # Nothing is there that could lack evidence; the objects of this file are then written under the schema.
        activate(begin, class_name, mode=line.schema_.mode, initiator=initiator)
    return changed or proposed


def _line(given: JsonValue) -> ClassLine:
    try:
        line = ClassLine.model_validate_json(encode(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in (MEMBER, *first["loc"]))
        raise LineRefused(shortened(first["msg"], 120), field=shortened(place, 120)) from None
    if line.schema_ is None:
        return line
    # As it was given: the validation has read its numbers as doubles.
    exact: Any = given["schema"]["schema"]  # type: ignore[call-overload, index]
    return line.model_copy(update={"schema_": line.schema_.model_copy(update={"schema_": exact})})


def _class(connection: Connection, name: str, line: ClassLine) -> tuple[bool, int]:
    try:
        return False, classes.class_id(connection, name)
    except NoSuchClass:
        pass
    with _refusing(f"{MEMBER}.description"):
        made = classes.create_class(connection, name, description=line.description)
    if line.keep_days is not None or line.keep_newest is not None:
        with _refusing(f"{MEMBER}.keep_days"):
            set_retention(connection, name, keep_days=line.keep_days, keep_newest=line.keep_newest)
    return True, made.id


def _define(connection: Connection, name: str, position: int, field: FieldLine, initiator: Initiator) -> bool:
    place = f"{MEMBER}.fields[{position}]"
    old = next((one for one in list_fields(connection, name) if one.key == field.key), None)
    if old is None:
        with _refusing(place, field.key):
            define_field(connection, name, initiator=initiator, **field.model_dump())
        return True
    wanted = field.model_copy(update={"label": field.label if field.label is not None else old.label})
    if FieldLine(**_field(old)) != wanted:
        raise LineRefused(
            "the class has another field of this name: drop it, or take it out of the line",
            field=place, value=shortened(field.key, 40),
        )  # fmt: skip
    return False


def _propose(connection: Connection, name: str, class_id: int, given: SchemaLine, initiator: Initiator) -> bool:
    text = encode(given.schema_) if not isinstance(given.schema_, str) else given.schema_
    for one in open_revisions(connection, class_id).values():
        if decode(text_of(connection, one.id) or "null") == decode(text):
            return False
    with _refusing(f"{MEMBER}.schema"):
        propose_schema(connection, name, text, initiator=initiator)
    return True


def _field(one: Definition) -> dict[str, Any]:
    return {
        "key": one.key, "op": one.operation.op, "paths": list(one.operation.paths), "result_type": one.result_type,
        "label": one.label, "description": one.description, "enabled": one.enabled,
    }  # fmt: skip


def _bounds(days: float | None, newest: int | None) -> dict[str, float | int | None]:
    return {"keep_days": days, "keep_newest": newest}


@dataclass(frozen=True)
class _refusing:
    """What the domain refuses is said of the place in the line."""

    field: str
    value: str | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, UsageError | Refused):
            raise LineRefused(str(error), field=self.field, value=self.value and shortened(self.value, 40)) from None
