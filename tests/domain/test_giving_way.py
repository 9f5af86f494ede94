"""Scans and rebuilds beside writers that hold several objects: whoever writes wins, and nobody ends in a deadlock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from tenure_records import put_object
from tenure_records.schemas import evidence
from tenure_records.schemas.evidence import Judged
from tenure_records.schemas.judge import Finding
from tenure_workers.kinds.reindex import records_reindex
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import CITY, defined, put, scalar
from tests.support.schemas import asked, proposed, records_schema_validation, task
from tests.support.until import until

WAITING = "select count(*) from pg_locks where not granted and locktype = 'transactionid'"


@contextmanager
def under_way(body: Callable[[], Any]) -> Iterator[None]:
    thread = threading.Thread(target=body)
    thread.start()
    yield
    thread.join()


def a_scan(records: Database) -> tuple[UUID, Any]:
    proposed(records)
    return asked(records), records_schema_validation


def a_rebuild(records: Database) -> tuple[UUID, Any]:
    return defined(records), records_reindex


@pytest.mark.parametrize("asked_for", [a_scan, a_rebuild])
def test_a_page_gives_way_to_a_writer_that_wants_what_it_holds(
    records: Database, asked_for: Callable[[Database], tuple[UUID, Any]]
) -> None:
    """The writer has the last object, and comes for the first while the page waits for the last."""
    put(records, 50, name="x")
    task_id, kind = asked_for(records)
    with records.engine.begin() as writer:
        put_object(writer, CITY, "k49", {"name": 1, "a": 1})
        with under_way(lambda: run(records, task_id, kind)):
            until(lambda: scalar(records, WAITING))
            put_object(writer, CITY, "k0", {"name": 1, "a": 1})
            writer.commit()
    assert task(records, task_id)["state"] == "succeeded"


def test_evidence_is_locked_in_one_order_whatever_the_verdicts_are(records: Database) -> None:
    schema = proposed(records).id

    def write(connection: Connection, valid: list[int], invalid: list[int]) -> None:
        others = [Judged(number, 1, "invalid", (Finding("", "type"),)) for number in invalid]
        evidence.write(connection, schema, [(number, 1) for number in valid], others)

    def mixed() -> None:
        with records.engine.begin() as connection:
            write(connection, [1, 9], [5])

    with records.engine.begin() as connection:
        write(connection, [1, 5, 9], [])
    with records.engine.begin() as holder:
        write(holder, [5], [])
        with under_way(mixed):
            until(lambda: scalar(records, WAITING))
            holder.execute(text("set local lock_timeout = '2s'"))
            write(holder, [9], [])
            holder.commit()
    assert (
        scalar(records, "select string_agg(verdict, ' ' order by object_id) from schema_evidence")
        == "valid invalid valid"
    )
