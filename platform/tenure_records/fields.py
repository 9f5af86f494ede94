"""Shared computed fields of a class: define, change, drop. Each is one transaction with the reindex it makes necessary.

Here is where the change events of definitions will be appended: one function per change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from tenure.model.errors import shortened
from tenure.model.records import Initiator, Submitted
from tenure_records import classes, locks, rebuild
from tenure_records.computed import MAX_SHARED_DEFINITIONS, Definition, Operation, define
from tenure_records.errors import FieldExists, NoSuchField, RevisionConflict, TooManyFields

_COLUMNS = "key, label, op, paths, result_type, description, enabled, revision, semantics_version"
_SHARED = "class_id = :class_id and visibility = 'shared'"
_LIST = text(f"select {_COLUMNS} from computed_field_definitions where {_SHARED} order by key")
_COUNT = text(f"select count(*) from computed_field_definitions where {_SHARED}")
_INSERT = text("""insert into computed_field_definitions
        (class_id, key, label, op, paths, result_type, description, enabled, semantics_version)
    values (:class_id, :key, :label, :op, :paths, :result_type, :description, :enabled, :semantics_version)
    on conflict do nothing""")
_UPDATE = text(f"""update computed_field_definitions set label = :label, op = :op, paths = :paths,
        result_type = :result_type, description = :description, enabled = :enabled,
        semantics_version = :semantics_version, revision = revision + 1, updated_at = clock_timestamp()
    where {_SHARED} and key = :key and revision = :revision""")
_DELETE = text(f"delete from computed_field_definitions where {_SHARED} and key = :key and revision = :revision")


@dataclass(frozen=True)
class Change:
    """What a change of definitions came to. `task` is the reindex it created, None when no value can differ."""

    field: Definition
    evaluation_revision: int | None
    task: Submitted | None


def list_fields(connection: Connection, class_name: str) -> list[Definition]:
    """The shared definitions of a class, by key, disabled ones too. Raises NoSuchClass."""
    return _all(connection, classes.class_id(connection, class_name))


def define_field(
    connection: Connection,
    class_name: str,
    key: str,
    *,
    op: str,
    paths: Sequence[str],
    result_type: str,
    initiator: Initiator,
    label: str | None = None,
    description: str = "",
    enabled: bool = True,
) -> Change:
    """Add a field. Raises NoSuchClass, InvalidDefinition, FieldExists, TooManyFields (32 a class)."""
    made = define(
        key=key, label=key if label is None else label, operation=Operation(op, tuple(paths)),
        result_type=result_type, description=description, enabled=enabled,
    )  # fmt: skip
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    if int(connection.execute(_COUNT, {"class_id": class_id}).scalar_one()) >= MAX_SHARED_DEFINITIONS:
        raise TooManyFields(f"class {shortened(class_name)!r} has {MAX_SHARED_DEFINITIONS} fields: drop one first")
    if connection.execute(_INSERT, _values(class_id, made)).rowcount != 1:
        raise FieldExists(f"field {key} exists already in class {shortened(class_name)!r}: change it, or drop it")
    return _changed(connection, class_id, class_name, made, made.enabled, initiator)


def change_field(
    connection: Connection, class_name: str, key: str, *, revision: int, initiator: Initiator, **changes: Any
) -> Change:
    """Change members of a field (label, description, op, paths, result_type, enabled) that is at `revision`.

    Raises NoSuchClass, NoSuchField, InvalidDefinition, and RevisionConflict when it was changed meanwhile.
    """
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    old = _one(connection, class_id, class_name, key)
    members: dict[str, Any] = {
        "label": old.label, "description": old.description, "op": old.operation.op, "paths": old.operation.paths,
        "result_type": old.result_type, "enabled": old.enabled,
    }  # fmt: skip
    if unknown := changes.keys() - members.keys():
        raise TypeError(f"no member of a field: {', '.join(sorted(unknown))}")
    members |= changes
    new = define(
        key=key, operation=Operation(members.pop("op"), tuple(members.pop("paths"))), revision=revision + 1, **members
    )
    here = {**_values(class_id, new), "revision": revision}
    if connection.execute(_UPDATE, here).rowcount != 1:
        raise _conflict(key, revision, old.revision)
    matters = (old.enabled or new.enabled) and _effect(old) != _effect(new)
    return _changed(connection, class_id, class_name, new, matters, initiator)


def drop_field(connection: Connection, class_name: str, key: str, *, revision: int, initiator: Initiator) -> Change:
    """Remove a field that is at `revision`. Raises NoSuchClass, NoSuchField, RevisionConflict."""
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    old = _one(connection, class_id, class_name, key)
    if connection.execute(_DELETE, {"class_id": class_id, "key": key, "revision": revision}).rowcount != 1:
        raise _conflict(key, revision, old.revision)
    return _changed(connection, class_id, class_name, old, old.enabled, initiator)


def _changed(
    connection: Connection, class_id: int, name: str, field: Definition, matters: bool, initiator: Initiator
) -> Change:
    if not matters:
        return Change(field, None, None)
    revision, task = rebuild.invalidate(connection, class_id, name, initiator=initiator)
    return Change(field, revision, task)


def _effect(field: Definition) -> tuple[object, ...]:
    return field.operation, field.result_type, field.enabled, field.semantics_version


def _all(connection: Connection, class_id: int) -> list[Definition]:
    rows = connection.execute(_LIST, {"class_id": class_id})
    return [Definition(key, label, Operation(op, tuple(paths)), *rest) for key, label, op, paths, *rest in rows]


def _one(connection: Connection, class_id: int, class_name: str, key: str) -> Definition:
    for field in _all(connection, class_id):
        if field.key == key:
            return field
    raise NoSuchField(f"no field {shortened(key)!r} in class {shortened(class_name)!r}")


def _conflict(key: str, expected: int, found: int) -> RevisionConflict:
    return RevisionConflict(f"field {key} is at revision {found}, not {expected}: read it again")


def _values(class_id: int, field: Definition) -> dict[str, Any]:
    return {
        "class_id": class_id, "key": field.key, "label": field.label, "op": field.operation.op,
        "paths": list(field.operation.paths), "result_type": field.result_type, "description": field.description,
        "enabled": field.enabled, "semantics_version": field.semantics_version,
    }  # fmt: skip
