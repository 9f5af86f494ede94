"""What tests of records share: who asks, a class of their own, the shortest way to say a field or an object."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.records import Initiator
from tenure_records import Change, RecordClass, define_field, get_class, get_object, put_objects
from tests.support.databases import Database

ME = Initiator("user", "1000", "tester")
CITY = "city"


def define(connection: Connection, key: str = "total", **members: Any) -> Change:
    """A field of the class `city`: the sum of a and b unless said otherwise."""
    shape = {"op": "sum", "paths": ["/a", "/b"], "result_type": "number"} | members
    return define_field(connection, CITY, key, initiator=ME, **shape)


def defined(database: Database, key: str = "total", **members: Any) -> UUID:
    """The same, committed; the id of its reindex."""
    with database.engine.begin() as connection:
        change = define(connection, key, **members)
    assert change.task is not None
    return change.task.id


def put(database: Database, count: int, **data: Any) -> None:
    """Objects k0 … with a = their number."""
    with database.engine.begin() as connection:
        put_objects(connection, CITY, [(f"k{n}", {"a": n, **data}) for n in range(count)])


def state(database: Database) -> RecordClass:
    with database.engine.connect() as connection:
        return get_class(connection, CITY)


def computed(database: Database, key: str) -> tuple[dict[str, Any], bool]:
    """(values, stale) of one object, without repairing it."""
    with database.engine.connect() as connection:
        found = get_object(connection, CITY, key, include_computed=True, repair=False).computed
    assert found is not None
    return found.values, found.stale


def stored(database: Database) -> list[tuple[str, int, dict[str, Any]]]:
    """[(key, evaluation revision, values)] as they are materialised, by key."""
    with database.engine.connect() as connection:
        rows = connection.execute(
            text("""select o.key, c.evaluation_revision, c.values from object_computed_data c
                join record_objects o on o.class_id = c.class_id and o.id = c.object_id order by o.key""")
        )
        return [(row[0], row[1], row[2]) for row in rows]


def scalar(database: Database, statement: str, **values: Any) -> Any:
    with database.engine.connect() as connection:
        return connection.execute(text(statement), values).scalar()
