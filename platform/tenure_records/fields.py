"""Shared computed fields of a class: define, change, drop. Each is one transaction with the reindex it makes necessary.

Here is where the change events of definitions will be appended: one function per change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from tenure.model.errors import shortened
from tenure.model.records import Initiator, Submitted
from tenure_records import classes, definitions, locks, rebuild
from tenure_records.computed import MAX_SHARED_DEFINITIONS, Definition, Operation, define
from tenure_records.errors import FieldExists, TooManyFields


@dataclass(frozen=True)
class Change:
    """What a change of definitions came to. `task` is the reindex it created, None when no value can differ."""

    field: Definition
    evaluation_revision: int | None
    task: Submitted | None


def list_fields(connection: Connection, class_name: str) -> list[Definition]:
    """The shared definitions of a class, by key, disabled ones too. Raises NoSuchClass."""
    return definitions.all_of(connection, classes.class_id(connection, class_name))


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
    if len(definitions.all_of(connection, class_id)) >= MAX_SHARED_DEFINITIONS:
        raise TooManyFields(f"class {shortened(class_name)!r} has {MAX_SHARED_DEFINITIONS} fields: drop one first")
    if not definitions.insert(connection, class_id, made):
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
    old = definitions.one_of(connection, class_id, class_name, key)
    new = definitions.update(connection, class_id, old, revision, changes)
    matters = (old.enabled or new.enabled) and _effect(old) != _effect(new)
    return _changed(connection, class_id, class_name, new, matters, initiator)


def drop_field(connection: Connection, class_name: str, key: str, *, revision: int, initiator: Initiator) -> Change:
    """Remove a field that is at `revision`. Raises NoSuchClass, NoSuchField, RevisionConflict."""
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    old = definitions.one_of(connection, class_id, class_name, key)
    definitions.delete(connection, class_id, old, revision)
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
