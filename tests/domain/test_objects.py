"""Writing objects: optimistic revisions, and values that commit with the data or not at all."""

from decimal import Decimal

import pytest
from sqlalchemy import event

from tenure_records import delete_object, get_object, get_objects, put_object, put_objects
from tenure_records.errors import InvalidKey, InvalidObject, NoSuchObject, RevisionConflict
from tests.support.databases import Database
from tests.support.records import CITY, computed, defined, put, scalar, stored


def test_a_write_materialises_in_its_own_transaction(records: Database) -> None:
    defined(records)
    with records.engine.connect() as connection:
        put_object(connection, CITY, "k", {"a": 1, "b": Decimal("0.1")})
        connection.rollback()
    assert (scalar(records, "select count(*) from record_objects"), stored(records)) == (0, [])
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k", {"a": 1, "b": Decimal("0.1")})
    assert computed(records, "k") == ({"total": Decimal("1.1")}, False)


def test_equal_data_is_no_change(records: Database) -> None:
    with records.engine.begin() as connection:
        first = put_object(connection, CITY, "k", '{"a": 1, "b": [2.50]}')
        again = put_object(connection, CITY, "k", b'{"b":[2.5],\n"a":1.0}')
        other = put_object(connection, CITY, "k", {"a": 2})
    assert (first.revision, first.changed) == (1, True)
    assert (again.revision, again.change_seq, again.changed) == (1, first.change_seq, False)
    assert (other.revision, other.changed) == (2, True)
    assert other.change_seq > first.change_seq


def test_a_write_at_another_revision_than_expected_changes_nothing(records: Database) -> None:
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k", {"a": 1}, revision=0)
        put_object(connection, CITY, "k", {"a": 2}, revision=1)
        with pytest.raises(RevisionConflict, match="is at revision 2, not at 1"):
            put_object(connection, CITY, "k", {"a": 3}, revision=1)
        with pytest.raises(RevisionConflict, match="not at 0"):
            put_object(connection, CITY, "k", {"a": 3}, revision=0)
        with pytest.raises(RevisionConflict, match="does not exist"):
            put_object(connection, CITY, "nope", {"a": 3}, revision=4)
        with pytest.raises(RevisionConflict):
            delete_object(connection, CITY, "k", revision=1)
        assert get_object(connection, CITY, "k").data == {"a": 2}


def test_deleting_takes_the_values_along(records: Database) -> None:
    defined(records)
    put(records, 2)
    with records.engine.begin() as connection:
        delete_object(connection, CITY, "k0", revision=1)
        with pytest.raises(NoSuchObject):
            delete_object(connection, CITY, "k0")
    assert [key for key, _, _ in stored(records)] == ["k1"]
    assert scalar(records, "select count(*) from object_computed_data") == 1


def test_many_objects_are_read_by_key_and_in_pages(records: Database) -> None:
    put(records, 5)
    with records.engine.connect() as connection:
        assert [found.key for found in get_objects(connection, CITY, keys=["k3", "k1", "nope"])] == ["k1", "k3"]
        first = get_objects(connection, CITY, limit=2)
        rest = get_objects(connection, CITY, after=first[-1].id)
    assert [found.key for found in (*first, *rest)] == ["k0", "k1", "k2", "k3", "k4"]


@pytest.mark.parametrize("data", [[1], "nope", "[1]", {"a": float("nan")}, {"a": Decimal("inf")}, {"a": "\0"}, {"a": {1, 2}},
                                  {"a": "\ud800"}, '{"a": 1', b"\xff", '{"a": 1, "a": 1}', b'{"a": [{"b": 1, "b": 2}]}',
                                  '{"a": 1e400}', {"a": Decimal("1e400")}, {"a": 10**309}, '{"a": -1e-309}'])  # fmt: skip
def test_what_is_no_json_object_is_refused_before_the_database_sees_it(records: Database, data: object) -> None:
    with records.engine.connect() as connection:
        with pytest.raises(InvalidObject):
            put_object(connection, CITY, "k", data)  # type: ignore[arg-type]
        put_object(connection, CITY, "k", {})  # the transaction goes on


def test_a_bulk_write_with_one_key_twice_writes_nothing(records: Database) -> None:
    with records.engine.begin() as connection, pytest.raises(InvalidKey, match="given twice"):
        put_objects(connection, CITY, [("k", {"a": 1}), ("k", {"a": 2})])
    assert scalar(records, "select count(*) from record_objects") == 0


def test_values_follow_from_the_stored_text_where_its_length_decides(records: Database) -> None:
    """Given, the document has 24 kB; as PostgreSQL writes it, more than the 1 MiB an input may have."""
    defined(records)
    long = '{"a": 1, "c": [' + ",".join(["1e300"] * 4_000) + "]}"
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k", long)
        put_objects(connection, CITY, [("l", long)])
    assert computed(records, "k") == computed(records, "l") == ({"total": None}, False)


def test_an_object_that_comes_just_after_it_was_not_found_is_no_conflict(records: Database) -> None:
    def come(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("delete from record_objects"):
            with records.engine.begin() as other:
                put_object(other, CITY, "k", {})

    event.listen(records.engine, "after_cursor_execute", come)
    with records.engine.begin() as connection, pytest.raises(NoSuchObject):
        delete_object(connection, CITY, "k")
    event.remove(records.engine, "after_cursor_execute", come)
    assert scalar(records, "select revision from record_objects") == 1
