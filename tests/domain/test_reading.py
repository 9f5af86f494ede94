"""Readers are always right: what is stored counts only if it follows from the data and definitions of now."""

import logging
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tenure_records import drop_field, get_object, get_objects, put_object, put_objects
from tenure_records import reading as reading_module
from tenure_workers.kinds.reindex import records_reindex
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import CITY, ME, computed, defined, put, scalar, state, stored

SPOILED = {
    "missing": "delete from object_computed_data",
    "of older definitions": "update object_computed_data set evaluation_revision = 0",
    "of older data": "update object_computed_data set change_seq = 0",
    "of definitions to come": "update object_computed_data set evaluation_revision = 99",
    "of data to come": "update object_computed_data set change_seq = change_seq + 1000000",
    "of other data": "update object_computed_data set source_digest = sha256('')",
    "of another field": """update object_computed_data set values = '{"nope": 1}'""",
    "of another type": """update object_computed_data set values = '{"total": "1"}'""",
    "with an unknown code": """update object_computed_data set errors = '{"total": "nope"}', values = '{"total": null}'""",
    "with a code that is no string": """update object_computed_data set errors = '{"total": [1]}', values = '{"total": null}'""",
    "with codes that are no object": """update object_computed_data set errors = '["total"]'""",
    "that is no object": """update object_computed_data set values = '[1]'""",
    "too deep to be decoded": """update object_computed_data set values =
        ('{"total": ' || repeat('[', 300) || repeat(']', 300) || '}')::jsonb""",
    "of the right form and wrong": """update object_computed_data set values = '{"total": 99}'""",
    "null without a reason": """update object_computed_data set values = '{"total": null}'""",
    "with a code beside a value": """update object_computed_data set errors = '{"total": "result_too_large"}'""",
    "behind the data": """update record_objects set data = '{"a": 1, "c": 1}'""",
}


def made_ready(records: Database) -> None:
    defined(records)
    put(records, 2)
    with records.engine.begin() as connection:
        connection.execute(text("update class_computation_state set rebuild_status = 'ready'"))


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_stale_value_is_evaluated_flagged_and_repaired(records: Database, spoil: str) -> None:
    made_ready(records)
    with records.engine.begin() as connection:
        connection.execute(text(spoil))
    assert computed(records, "k1") == ({"total": 1}, True)
    with records.engine.begin() as connection:
        assert get_object(connection, CITY, "k1", include_computed=True).computed is not None
    assert computed(records, "k1") == ({"total": 1}, False)


CORRUPT = {"of the right form and wrong", "too deep to be decoded", "of data to come"}


@pytest.mark.parametrize("name", sorted(CORRUPT | {"missing", "of older data"}))
def test_a_repair_is_logged_as_counts_without_any_value(
    records: Database, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    made_ready(records)
    with records.engine.begin() as connection:
        connection.execute(text(SPOILED[name]))
    with caplog.at_level(logging.INFO, "tenure.records"), records.engine.begin() as connection:
        get_objects(connection, CITY, include_computed=True)
        get_objects(connection, CITY, include_computed=True)
    (line,) = caplog.records
    counts = "0 stale, 2 corrupt" if name in CORRUPT else "2 stale, 0 corrupt"
    assert line.getMessage() == f"computed values of class 1 found out of date: {counts}, 2 repaired"
    assert line.levelno == (logging.WARNING if name in CORRUPT else logging.INFO)


def test_a_repair_never_replaces_what_was_written_since_the_read(records: Database) -> None:
    """The reader's snapshot is older than the write; its repair finds the newer values and lets them be."""
    made_ready(records)
    with records.engine.begin() as connection:
        connection.execute(text(SPOILED["of the right form and wrong"]))
    with records.engine.connect() as reading:
        real = reading_module.scope.current

        def writing(connection: Connection, class_id: int) -> Any:
            with records.engine.begin() as other:
                put_object(other, CITY, "k1", {"a": 500})
            return real(connection, class_id)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading_module.scope, "current", writing_once(writing, real))
            found = get_object(reading, CITY, "k1", include_computed=True).computed
        reading.commit()
    assert found is not None
    assert found.values == {"total": 1}  # of the data that this read saw
    assert computed(records, "k1") == ({"total": 500}, False)


def writing_once(first: Any, then: Any) -> Any:
    """The first call goes to one function, all others to another."""
    calls = iter([first])
    return lambda *given: next(calls, then)(*given)


def test_a_rebuild_ends_without_values_of_a_revision_that_is_yet_to_come(records: Database) -> None:
    put(records, 2)
    made = defined(records)
    with records.engine.begin() as connection:
        put_objects(connection, CITY, [("k0", {"a": 7})])
        connection.execute(text(SPOILED["of definitions to come"]))
    run(records, made, records_reindex)
    assert [revision for _, revision, _ in stored(records)] == [1]
    assert computed(records, "k0") == ({"total": 7}, True)


def test_while_a_rebuild_runs_a_reader_leaves_the_repair_to_it(records: Database) -> None:
    put(records, 1)
    defined(records)
    with records.engine.begin() as connection:
        found = get_object(connection, CITY, "k0", include_computed=True).computed
    assert found is not None
    assert (found.values, found.stale, stored(records)) == ({"total": 0}, True, [])


def test_a_reader_that_may_not_write_reads_all_the_same(records: Database) -> None:
    made_ready(records)
    with records.engine.begin() as connection:
        connection.execute(text(SPOILED["missing"]))
    with records.engine.begin() as connection:
        connection.execute(text("set transaction read only"))
        found = get_objects(connection, CITY, include_computed=True)
        assert [(one.computed.values, one.computed.stale) for one in found if one.computed] == [
            ({"total": 0}, True),
            ({"total": 1}, True),
        ]
        assert connection.execute(text("select 1")).scalar() == 1


def test_a_repair_does_not_wait_for_an_open_change_of_definitions(records: Database) -> None:
    made_ready(records)
    with records.engine.begin() as connection:
        connection.execute(text(SPOILED["missing"]))
    with records.engine.connect() as changing, records.engine.begin() as reading:
        drop_field(changing, CITY, "total", revision=1, initiator=ME)
        reading.execute(text("set local lock_timeout = '2s'"))
        found = get_object(reading, CITY, "k1", include_computed=True).computed
    assert found is not None
    assert (found.values, stored(records)) == ({"total": 1}, [])


def test_a_class_without_fields_has_no_values_and_nothing_stale(records: Database) -> None:
    put(records, 1)
    assert computed(records, "k0") == ({}, False)
    assert state(records).rebuild_status == "ready"
    assert scalar(records, "select count(*) from object_computed_data") == 0
