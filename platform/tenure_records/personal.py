"""Personal computed fields: one person's own view of a class.

They are evaluated when their owner reads and never stored, so they make no reindex and no write slower. Nobody else sees
them; a service has none. Beside the shared fields they are a map of their own: neither hides a key of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from tenure.model.errors import shortened
from tenure.model.records import Initiator
from tenure_records import classes, definitions
from tenure_records.computed import MAX_PERSONAL_DEFINITIONS, Definition, Operation, define
from tenure_records.errors import FieldExists, NotAPerson, TooManyFields

# Between the class lock, which personal fields need not, and the objects: two defining at once are counted in turn.
_LOCK: Final = text("select id from record_classes where id = :class_id for no key update")


def list_personal(connection: Connection, class_name: str, *, owner: Initiator) -> list[Definition]:
    """What this person has defined for a class, by key. Raises NoSuchClass, NotAPerson."""
    return definitions.all_of(connection, classes.class_id(connection, class_name), person(owner))


def define_personal(
    connection: Connection,
    class_name: str,
    key: str,
    *,
    owner: Initiator,
    op: str,
    paths: Sequence[str],
    result_type: str,
    label: str | None = None,
    description: str = "",
    enabled: bool = True,
) -> Definition:
    """Add a field. Raises NoSuchClass, NotAPerson, InvalidDefinition, FieldExists, TooManyFields (16 a person and class)."""
    made = define(
        key=key, label=key if label is None else label, operation=Operation(op, tuple(paths)),
        result_type=result_type, description=description, enabled=enabled,
    )  # fmt: skip
    who, class_id = person(owner), classes.class_id(connection, class_name)
    connection.execute(_LOCK, {"class_id": class_id})
    if len(definitions.all_of(connection, class_id, who)) >= MAX_PERSONAL_DEFINITIONS:
        raise TooManyFields(
            f"you have {MAX_PERSONAL_DEFINITIONS} personal fields in class {shortened(class_name)!r}: drop one first"
        )
    if not definitions.insert(connection, class_id, made, who):
        raise FieldExists(f"you have a field {key} in class {shortened(class_name)!r} already: change it, or drop it")
    return made


def change_personal(
    connection: Connection, class_name: str, key: str, *, owner: Initiator, revision: int, **changes: Any
) -> Definition:
    """Change members (label, description, op, paths, result_type, enabled) of a field that is at `revision`.

    Raises NoSuchClass, NotAPerson, NoSuchField, InvalidDefinition, RevisionConflict.
    """
    who, class_id = person(owner), classes.class_id(connection, class_name)
    old = definitions.one_of(connection, class_id, class_name, key, who)
    return definitions.update(connection, class_id, old, revision, changes, who)


def drop_personal(connection: Connection, class_name: str, key: str, *, owner: Initiator, revision: int) -> None:
    """Remove a field that is at `revision`. Raises NoSuchClass, NotAPerson, NoSuchField, RevisionConflict."""
    who, class_id = person(owner), classes.class_id(connection, class_name)
    definitions.delete(
        connection, class_id, definitions.one_of(connection, class_id, class_name, key, who), revision, who
    )


def forget_person(connection: Connection, owner: Initiator) -> int:
    """Delete all that a person has defined, in every class, as when the account goes; how many fields that were."""
    return definitions.forget(connection, person(owner))


def is_person(who: Initiator) -> bool:
    """Whether it is a human user: only they may have fields of their own."""
    return who.type == "user" and who.id != ""


def person(who: Initiator) -> str:
    """The id under which a person's fields are kept. Raises NotAPerson."""
    if not is_person(who):
        raise NotAPerson(f"{shortened(who)} is no user: only people have personal fields; define a shared one")
    return who.id
