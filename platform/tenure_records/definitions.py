"""The rows of field definitions, shared and personal alike. Who may change them, and what follows, others decide."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, text

from tenure.model.errors import shortened
from tenure_records.computed import Definition, Operation, define
from tenure_records.errors import NoSuchField, RevisionConflict

SHARED: Final = ""
"""The owner of what everybody sees; a personal definition has its person's id there."""

_COLUMNS = "key, label, op, paths, result_type, description, enabled, revision, semantics_version"
_OF = """class_id = :class_id and owner = :owner
    and visibility = case when :owner = '' then 'shared' else 'personal' end"""
_LIST = text(f"select {_COLUMNS} from computed_field_definitions where {_OF} order by key")
_INSERT = text("""insert into computed_field_definitions
        (class_id, visibility, owner, key, label, op, paths, result_type, description, enabled, semantics_version)
    values (:class_id, case when :owner = '' then 'shared' else 'personal' end, :owner, :key, :label, :op, :paths,
            :result_type, :description, :enabled, :semantics_version)
    on conflict do nothing""")
_UPDATE = text(f"""update computed_field_definitions set label = :label, op = :op, paths = :paths,
        result_type = :result_type, description = :description, enabled = :enabled,
        semantics_version = :semantics_version, revision = revision + 1, updated_at = clock_timestamp()
    where {_OF} and key = :key and revision = :revision""")
_DELETE = text(f"delete from computed_field_definitions where {_OF} and key = :key and revision = :revision")
_FORGET = text("delete from computed_field_definitions where visibility = 'personal' and owner = :owner")


def all_of(connection: Connection, class_id: int, owner: str = SHARED) -> list[Definition]:
    """By key, disabled ones too."""
    rows = connection.execute(_LIST, {"class_id": class_id, "owner": owner})
    return [Definition(key, label, Operation(op, tuple(paths)), *rest) for key, label, op, paths, *rest in rows]


def one_of(connection: Connection, class_id: int, class_name: str, key: str, owner: str = SHARED) -> Definition:
    """One by key. Raises NoSuchField."""
    for field in all_of(connection, class_id, owner):
        if field.key == key:
            return field
    raise NoSuchField(f"no field {shortened(key)!r} in class {shortened(class_name)!r}")


def insert(connection: Connection, class_id: int, field: Definition, owner: str = SHARED) -> bool:
    """Whether it was written: not when the key is taken."""
    return connection.execute(_INSERT, _values(class_id, owner, field)).rowcount == 1


def update(
    connection: Connection, class_id: int, old: Definition, revision: int, changes: dict[str, Any], owner: str = SHARED
) -> Definition:
    """The definition after changes of its members. Raises InvalidDefinition, RevisionConflict; TypeError for no member."""
    members: dict[str, Any] = {
        "label": old.label, "description": old.description, "op": old.operation.op, "paths": old.operation.paths,
        "result_type": old.result_type, "enabled": old.enabled,
    }  # fmt: skip
    if unknown := changes.keys() - members.keys():
        raise TypeError(f"no member of a field: {', '.join(sorted(unknown))}")
    members |= changes
    operation = Operation(members.pop("op"), tuple(members.pop("paths")))
    new = define(key=old.key, operation=operation, revision=revision + 1, **members)
    if connection.execute(_UPDATE, {**_values(class_id, owner, new), "revision": revision}).rowcount != 1:
        raise _conflict(old, revision)
    return new


def delete(connection: Connection, class_id: int, old: Definition, revision: int, owner: str = SHARED) -> None:
    """Raises RevisionConflict."""
    here = {"class_id": class_id, "owner": owner, "key": old.key, "revision": revision}
    if connection.execute(_DELETE, here).rowcount != 1:
        raise _conflict(old, revision)


def forget(connection: Connection, owner: str) -> int:
    """Delete what a person has defined, in all classes; how many definitions."""
    return connection.execute(_FORGET, {"owner": owner}).rowcount


def _conflict(old: Definition, expected: int) -> RevisionConflict:
    return RevisionConflict(f"field {old.key} is at revision {old.revision}, not {expected}: read it again")


def _values(class_id: int, owner: str, field: Definition) -> dict[str, Any]:
    return {
        "class_id": class_id, "owner": owner, "key": field.key, "label": field.label, "op": field.operation.op,
        "paths": list(field.operation.paths), "result_type": field.result_type, "description": field.description,
        "enabled": field.enabled, "semantics_version": field.semantics_version,
    }  # fmt: skip
