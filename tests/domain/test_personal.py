"""Personal fields: their owner's alone, never stored, beside the shared ones and never in their place."""

import threading

import pytest
from sqlalchemy import text

from tenure.model.records import Initiator
from tenure_records import (
    Filter,
    Sort,
    change_personal,
    create_class,
    define_personal,
    drop_class,
    drop_personal,
    find_objects,
    forget_person,
    get_object,
    get_objects,
    list_fields,
    list_personal,
)
from tenure_records.computed import InvalidDefinition
from tenure_records.errors import (
    FieldExists,
    InvalidQuery,
    NoSuchClass,
    NoSuchField,
    NotAPerson,
    RevisionConflict,
    TooManyFields,
    ValuesOutOfDate,
)
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.records import CITY, defined, put, scalar, state, stored

ADA = Initiator("user", "ada", "Ada")
GRACE = Initiator("user", "grace", "Grace")
ROBOT = Initiator("service", "ada", "a service that is called as Ada is")
DOUBLE = {"op": "sum", "paths": ["/a", "/b"], "result_type": "number"}


def owned(database: Database, key: str, who: Initiator = ADA, **members: object) -> None:
    with database.engine.begin() as connection:
        define_personal(connection, CITY, key, owner=who, **{**DOUBLE, **members})  # type: ignore[arg-type]


def test_a_personal_field_is_evaluated_for_its_owner_only_and_stored_for_nobody(records: Database) -> None:
    put(records, 2, b=10)
    owned(records, "total")
    with records.engine.begin() as connection:
        mine = get_object(connection, CITY, "k1", include_computed=True, personal=ADA)
        assert mine.personal is not None
        assert (mine.personal.values, mine.personal.errors, mine.personal.stale) == ({"total": 11}, {}, False)
        assert mine.computed is not None
        assert mine.computed.values == {}
        theirs = get_object(connection, CITY, "k1", include_computed=True, personal=GRACE).personal
        assert theirs is not None
        assert theirs.values == {}
        assert get_object(connection, CITY, "k1", include_computed=True, personal=ROBOT).personal is None
        assert get_object(connection, CITY, "k1", include_computed=True).personal is None
        assert list_fields(connection, CITY) == []
        assert list_personal(connection, CITY, owner=GRACE) == []
    assert (stored(records), state(records).evaluation_revision, scalar(records, "select count(*) from tasks")) == (
        [],
        0,
        0,
    )


def test_a_personal_key_hides_no_shared_one(records: Database) -> None:
    put(records, 2, b=10)
    defined(records, "total", op="max")
    owned(records, "total")
    with records.engine.begin() as connection:
        (first, second) = get_objects(connection, CITY, include_computed=True, personal=ADA)
        for one, shared, own in ((first, 10, 10), (second, 10, 11)):
            assert one.computed is not None
            assert one.personal is not None
            assert (one.computed.values, one.personal.values) == ({"total": shared}, {"total": own})


def test_an_error_of_a_personal_field_is_a_code_beside_null(records: Database) -> None:
    put(records, 1, b="x")
    owned(records, "total")
    with records.engine.begin() as connection:
        found = get_object(connection, CITY, "k0", personal=ADA)
    assert found.personal is not None
    assert (found.personal.values, found.personal.errors) == ({"total": None}, {"total": "non_numeric_operand"})


def test_it_is_changed_and_dropped_at_the_revision_its_owner_has_read(records: Database) -> None:
    put(records, 1, b=10)
    owned(records, "total")
    with records.engine.begin() as connection:
        changed = change_personal(connection, CITY, "total", owner=ADA, revision=1, op="min", label="Least")
        assert (changed.revision, changed.label, changed.operation.op) == (2, "Least", "min")
        with pytest.raises(RevisionConflict, match="field total is at revision 2, not 1"):
            change_personal(connection, CITY, "total", owner=ADA, revision=1, op="max")
        with pytest.raises(RevisionConflict):
            drop_personal(connection, CITY, "total", owner=ADA, revision=1)
        with pytest.raises(NoSuchField):
            drop_personal(connection, CITY, "total", owner=GRACE, revision=2)
        with pytest.raises(InvalidDefinition, match="median is unknown"):
            change_personal(connection, CITY, "total", owner=ADA, revision=2, op="median")
        change_personal(connection, CITY, "total", owner=ADA, revision=2, enabled=False)
        own = get_object(connection, CITY, "k0", personal=ADA).personal
        assert own is not None
        assert own.values == {}
        drop_personal(connection, CITY, "total", owner=ADA, revision=3)
        assert list_personal(connection, CITY, owner=ADA) == []


def test_a_service_has_no_personal_fields(records: Database) -> None:
    for refused in (
        lambda c: define_personal(c, CITY, "total", owner=ROBOT, **DOUBLE),  # type: ignore[arg-type]
        lambda c: list_personal(c, CITY, owner=ROBOT),
        lambda c: forget_person(c, ROBOT),
    ):
        with records.engine.begin() as connection, pytest.raises(NotAPerson, match="only people have personal fields"):
            refused(connection)


def test_a_person_has_16_in_a_class_however_many_others_have(records: Database) -> None:
    for number in range(16):
        owned(records, f"f{number}")
    with pytest.raises(TooManyFields, match="you have 16 personal fields in class 'city'"):
        owned(records, "one_more")
    owned(records, "one_more", GRACE)
    with records.engine.begin() as connection:
        create_class(connection, "town")
        define_personal(connection, "town", "first", owner=ADA, **DOUBLE)  # type: ignore[arg-type]
    with pytest.raises(FieldExists, match="you have a field one_more"):
        owned(records, "one_more", GRACE)
    with pytest.raises(NoSuchClass), records.engine.begin() as connection:
        define_personal(connection, "nope", "f", owner=ADA, **DOUBLE)  # type: ignore[arg-type]


def test_the_16_hold_when_many_are_defined_at_once(records: Database) -> None:
    for number in range(12):
        owned(records, f"f{number}")
    refused: list[Exception] = []
    ready = threading.Barrier(8)

    def one_more(number: int) -> None:
        ready.wait()
        try:
            owned(records, f"g{number}")
        except TooManyFields as error:
            refused.append(error)

    threads = [threading.Thread(target=one_more, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), scalar(records, "select count(*) from computed_field_definitions")) == (4, 16)


def test_forgetting_a_person_removes_their_fields_in_every_class_and_nothing_else(records: Database) -> None:
    owned(records, "total")
    owned(records, "other")
    owned(records, "total", GRACE)
    defined(records, "total")
    with records.engine.begin() as connection:
        create_class(connection, "town")
        define_personal(connection, "town", "total", owner=ADA, **DOUBLE)  # type: ignore[arg-type]
        assert forget_person(connection, ADA) == 3
        assert forget_person(connection, ADA) == 0
        assert [one.key for one in list_personal(connection, CITY, owner=GRACE)] == ["total"]
        assert [one.key for one in list_fields(connection, CITY)] == ["total"]
        drop_class(connection, CITY)
        assert connection.execute(text("select count(*) from computed_field_definitions")).scalar() == 0


def test_objects_are_found_and_sorted_by_a_personal_field(records: Database) -> None:
    defined(records, "a", op="max", paths=["/a"])
    put(records, 30, b=1)
    owned(records, "rest", op="min", paths=["/a", "/b"])
    owned(records, "total")
    with records.engine.begin() as connection:
        large = [Filter("personal.total", "ge", 25), Filter("a", "lt", 28)]
        found = find_objects(connection, CITY, where=large, personal=ADA)
        assert [one.key for one in found.objects] == ["k24", "k25", "k26", "k27"]
        order = [Sort("personal.rest"), Sort("personal.total", descending=True)]
        first = find_objects(connection, CITY, order_by=order, personal=ADA, limit=4)
        rest = find_objects(connection, CITY, order_by=order, personal=ADA, after=first.after)
        assert [one.key for one in (*first.objects, *rest.objects)] == ["k0", *(f"k{n}" for n in range(29, 0, -1))]
        with pytest.raises(ValuesOutOfDate, match="has over 10 objects, too many to sort by a personal field"):
            find_objects(connection, CITY, order_by=order, personal=ADA, evaluate_at_most=10)
        for other in (GRACE, ROBOT, None):
            with pytest.raises(InvalidQuery, match=r"no enabled field 'personal\.total'"):
                find_objects(connection, CITY, where=large, personal=other)


def test_the_command_line_sets_shows_finds_and_drops_them(records: Database, tmp_path) -> None:  # type: ignore[no-untyped-def]
    put(records, 3, b=10)
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=records.url)
    shape = ["--op", "sum", "--path", "/a", "--path", "/b", "--type", "number"]
    made = tenure.json("records", "field", "set", CITY, "mine", *shape, "--personal")
    assert made == {"field": "mine", "revision": 1, "personal": True}
    assert tenure.json("records", "field", "set", CITY, "mine", *shape, "--personal", "--label", "M")["revision"] == 2
    assert [one["label"] for one in tenure.json("records", "field", "list", CITY, "--personal")] == ["M"]
    assert tenure.json("records", "field", "list", CITY) == []
    shown = tenure.json("records", "show", CITY, "k2", "--computed")
    assert (shown["personal"], shown["computed"]["values"]) == ({"values": {"mine": 12}, "errors": {}}, {})
    assert "personal.mine = 12" in tenure.line("records", "show", CITY, "k2", "--computed")
    found = tenure.json("records", "find", CITY, "--where", "personal.mine gt 10", "--sort", "personal.mine:desc")
    assert [one["key"] for one in found["objects"]] == ["k2", "k1"]
    assert "personal.mine" in tenure.line("records", "find", CITY)
    assert tenure.json("records", "field", "drop", CITY, "mine", "--personal") == {"field": "mine", "personal": True}
    assert "no field 'mine'" in tenure.refused(1, "records", "field", "drop", CITY, "mine", "--personal")
