"""Classes: a name for a set of objects that share computed fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.errors import shortened
from tenure_records import locks
from tenure_records.errors import ClassExists, InvalidClass, NoSuchClass
from tenure_records.schemas import evidence

NAME_BYTES: Final = 200
DESCRIPTION_BYTES: Final = 2_048

# A rebuild whose task ended otherwise than by its own last step has failed, however it ended: killed, cancelled, out
# of attempts. It is derived here, so that no process has to be alive to record it.
_STATUS = """case when s.rebuild_status = 'rebuilding' and (t.id is null or t.finished_at is not null)
    then 'failed' else s.rebuild_status end"""
_SELECT = f"""select c.id, c.name, c.description, c.revision, c.created_at, s.evaluation_revision,
        {_STATUS} as rebuild_status, s.active_task_id,
        case when {_STATUS} = 'failed' then coalesce(s.last_error, 'the rebuild ended as ' || coalesce(t.state, 'unknown'))
        end as last_error
    from record_classes c join class_computation_state s on s.class_id = c.id left join tasks t on t.id = s.active_task_id"""

_BY_NAME = text(f"{_SELECT} where c.name = :name")
_BY_ID = text(f"{_SELECT} where c.id = :id")
_ALL = text(f"{_SELECT} order by c.name")
_ID = text("select id from record_classes where name = :name")
_COUNT = text("select count(*) from record_objects where class_id = :id")
_CREATE = text("""with c as (insert into record_classes (name, description) values (:name, :description)
        on conflict (name) do nothing returning id)
    insert into class_computation_state (class_id) select id from c returning class_id""")
_DROP = text("delete from record_classes where id = :id")


@dataclass(frozen=True)
class RecordClass:
    """One class. `rebuild_status`: ready, rebuilding, or failed (values are then evaluated when read, and right)."""

    id: int
    name: str
    description: str
    revision: int
    created_at: datetime
    evaluation_revision: int
    rebuild_status: str
    active_task_id: UUID | None
    last_error: str | None


def create_class(connection: Connection, name: str, *, description: str = "") -> RecordClass:
    """Make a class. Raises InvalidClass, and ClassExists when the name is taken."""
    made = _create(connection, name, description)
    if made is None:
        raise ClassExists(f"class {shortened(name)!r} exists already: use it, or choose another name")
    return by_id(connection, made)


def ensure_class(connection: Connection, name: str) -> RecordClass:
    """The class of that name, made when it is missing. Raises InvalidClass."""
    _create(connection, name, "")
    return get_class(connection, name)


def check_name(name: str) -> None:
    """Raises InvalidClass for what no class can be called."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidClass(f"class name {shortened(name)!r}: must hold printable characters, not only blanks")
    if len(name.encode()) > NAME_BYTES:
        raise InvalidClass(f"class name {shortened(name)!r}: {len(name.encode())} bytes, at most {NAME_BYTES}")


def _create(connection: Connection, name: str, description: str) -> int | None:
    check_name(name)
    if "\0" in description or len(description.encode()) > DESCRIPTION_BYTES:
        raise InvalidClass(f"description: at most {DESCRIPTION_BYTES} bytes, without NUL")
    made: int | None = connection.execute(_CREATE, {"name": name, "description": description}).scalar()
    return made


def get_class(connection: Connection, name: str) -> RecordClass:
    """One class with the state of its computed fields. Raises NoSuchClass."""
    row = connection.execute(_BY_NAME, {"name": name}).first()
    if row is None:
        raise _missing(name)
    return RecordClass(*row)


def by_id(connection: Connection, class_id: int) -> RecordClass:
    """`get_class` by id. Raises NoSuchClass."""
    row = connection.execute(_BY_ID, {"id": class_id}).first()
    if row is None:
        raise dropped(class_id)
    return RecordClass(*row)


def list_classes(connection: Connection) -> list[RecordClass]:
    """All classes, by name."""
    return [RecordClass(*row) for row in connection.execute(_ALL)]


def count_objects(connection: Connection, class_id: int) -> int:
    """How many objects a class has now: counted, not estimated."""
    return int(connection.execute(_COUNT, {"id": class_id}).scalar_one())


def drop_class(connection: Connection, name: str) -> None:
    """Delete a class with its objects, definitions and values; a running reindex of it stops. Raises NoSuchClass."""
    found = class_id(connection, name)
    locks.take(connection, found)
    evidence.drop(connection, found)
    if connection.execute(_DROP, {"id": found}).rowcount != 1:
        raise _missing(name)


def class_id(connection: Connection, name: str) -> int:
    """The id that a name stands for; it never changes. Raises NoSuchClass."""
    found: int | None = connection.execute(_ID, {"name": name}).scalar()
    if found is None:
        raise _missing(name)
    return found


def dropped(class_id: int) -> NoSuchClass:
    """What to raise where a class is gone whose id was known."""
    return NoSuchClass(f"class {class_id} has been dropped")


def _missing(name: str) -> NoSuchClass:
    return NoSuchClass(f"no class {shortened(name)!r}: `tenure records classes` lists them")
