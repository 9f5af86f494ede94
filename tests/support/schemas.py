"""What tests of schemas share: a schema, a scan run to its end, an activation, and what no test may ever find."""

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text

from tenure import client
from tenure_records import activate, get_objects, impact, propose_schema, put_objects, revalidate, show_schema
from tenure_records.schemas.evidence import Tally
from tenure_records.schemas.judge import compile_schema
from tenure_records.schemas.revisions import Revision
from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import CITY, ME

NAMED: dict[str, Any] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def proposed(database: Database, schema: Any = NAMED) -> Revision:
    with database.engine.begin() as connection:
        return propose_schema(connection, CITY, schema, initiator=ME)


def activated(database: Database, mode: Literal["advisory", "strict"] = "strict", **given: Any) -> Revision:
    return activate(database.engine.begin, CITY, mode=mode, initiator=ME, **given)


def asked(database: Database, ask: Any = impact, **params: Any) -> UUID:
    """A scan asked for, with some of its params changed."""
    with database.engine.begin() as connection:
        made = ask(connection, CITY, initiator=ME)
        assert made.created
        for name, value in params.items():
            connection.execute(
                text("update task_params set params = params || jsonb_build_object(:name, cast(:n as bigint)) where task_id = :id"),
                {"name": name, "n": value, "id": made.id},
            )  # fmt: skip
    task_id: UUID = made.id
    return task_id


def scanned(database: Database, ask: Any = impact, **params: Any) -> dict[str, Any]:
    """A scan asked for and run to its end: its task."""
    task_id = asked(database, ask, **params)
    assert run(database, task_id, records_schema_validation) == 1
    return task(database, task_id)


def revalidated(database: Database) -> dict[str, Any]:
    return scanned(database, revalidate)


def task(database: Database, task_id: UUID) -> dict[str, Any]:
    with database.engine.connect() as connection:
        return client.get(connection, task_id)


def stored(database: Database, objects: Mapping[str, Any]) -> None:
    with database.engine.begin() as connection:
        put_objects(connection, CITY, objects.items())


def standing(database: Database) -> Tally:
    """How the objects of the class stand by its newest open revision."""
    with database.engine.connect() as connection:
        return show_schema(connection, CITY).open[0].tally


def assert_all_fit(database: Database, schema: Any) -> int:
    """No stored object violates the schema, judged anew from what is stored; how many there are."""
    judge = compile_schema(schema)
    with database.engine.connect() as connection:
        rows = connection.execute(text("select key, data::text from record_objects")).all()
        assert len(get_objects(connection, CITY, limit=10_000)) == len(rows)
    assert [key for key, body in rows if not judge.valid(body)] == []
    return len(rows)
