"""Readers are always right: what is stored counts only if it follows from the data and definitions of now."""

import pytest
from sqlalchemy import text

from tenure_records import drop_field, get_object, get_objects
from tests.support.databases import Database
from tests.support.records import CITY, ME, computed, defined, put, scalar, state, stored

SPOILED = {
    "missing": "delete from object_computed_data",
    "of older definitions": "update object_computed_data set evaluation_revision = 0",
    "of older data": "update object_computed_data set change_seq = 0",
    "of other data": "update object_computed_data set source_digest = sha256('')",
    "of another field": """update object_computed_data set values = '{"nope": 1}'""",
    "of another type": """update object_computed_data set values = '{"total": "1"}'""",
    "with an unknown code": """update object_computed_data set errors = '{"total": "nope"}', values = '{"total": null}'""",
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
