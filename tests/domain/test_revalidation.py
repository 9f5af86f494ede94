"""`records.revalidation`: one scan for each class with an active schema, and none twice."""

from typing import Any
from uuid import UUID

from sqlalchemy import text

from tenure import client
from tenure_records import create_class
from tenure_workers.kinds.records_revalidation import records_revalidation
from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import ME, scalar
from tests.support.schemas import activated, proposed, standing, stored, task


def revalidated(database: Database) -> dict[str, Any]:
    with database.engine.begin() as connection:
        task_id: UUID = client.submit(connection, records_revalidation, initiator=ME).id
    assert run(database, task_id, records_revalidation) == 1
    return task(database, task_id)


def test_a_scan_is_asked_for_of_each_class_with_an_active_schema(records: Database) -> None:
    with records.engine.begin() as connection:
        create_class(connection, "other")
    proposed(records)
    activated(records, "advisory")
    stored(records, {"good": {"name": "n"}, "bad": {}})
    done = revalidated(records)
    assert (done["state"], done["result"], done["summary"]) == ("succeeded", {"asked": 1}, "1 scans asked for")
    (scan,) = scalar(records, "select array_agg(id) from tasks where kind = 'records.schema_validation'")
    assert run(records, scan, records_schema_validation) == 1
    assert (standing(records).valid, standing(records).invalid) == (1, 1)


def test_a_scan_under_way_is_not_asked_for_again(records: Database) -> None:
    proposed(records)
    activated(records, "advisory")
    assert revalidated(records)["result"] == {"asked": 1}
    assert revalidated(records)["result"] == {"asked": 0}
    with records.engine.connect() as connection:
        assert connection.execute(text("select count(*) from schema_scans where mode = 'revalidation'")).scalar() == 1
