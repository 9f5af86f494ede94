"""What SQL finds is what filtering and sorting every object in Python would find, in the same order, page by page."""

import functools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from tenure_records import (
    Filter,
    Object,
    Sort,
    change_field,
    define_field,
    drop_field,
    find_objects,
    get_objects,
    put_objects,
)
from tenure_records.errors import InvalidQuery, ValuesOutOfDate
from tenure_workers.kinds.reindex import records_reindex
from tests.support.databases import Database
from tests.support.exact import as_fractions, strictly_equal
from tests.support.executing import run
from tests.support.records import CITY, ME, scalar, state
from tests.support.tasks import scale

FIELDS = {
    "n": ("sum", ["/n", "/m"], "number"),
    "i": ("max", ["/i"], "integer"),
    "s": ("first_non_null", ["/s"], "string"),
    "b": ("all_present", ["/b"], "boolean"),
    "o": ("first_non_null", ["/o"], "object"),
    "l": ("first_non_null", ["/l"], "array"),
}
NUMBERS = ["0", "-0.0", "1", "1.0", "1e0", "2", "-3", "0.1", "0.10000000000000000001", "9007199254740992",
           "9007199254740993", "9007199254740993.5", "1e-308", "-1e308", "1e308", "9" * 35, '"7"', "null"]  # fmt: skip
# By code point: "Z" < "a" < "é" < "ﬀ" < "😀", while UTF-16 puts the last two the other way round, and a locale more.
STRINGS = ["", "a", "A", "Z", "ab", "a b", "é", "e\u0301", "ﬀ", "😀", "10", "9", "%", "_", "a%", "\\", "'", '"', "\n", "x" * 599 + "a",
           "x" * 599 + "b", "x" * 600 + "a", "x" * 600 + "b"]  # fmt: skip
OBJECTS = ['{"a": 1, "b": [1.0]}', '{"b": [1], "a": 1.0}', '{"a": true}', '{"a": 1}', "{}", '{"a": null}']
ARRAYS = ["[1, 2]", "[1.0, 2e0]", "[2, 1]", "[true]", "[1]", "[]", "[null]", '["é"]']


def documents() -> list[str]:
    """A few hundred objects: every value of each kind, in ever other company, and some that fail or lack a member."""
    made = []
    for number in range(scale(250, 150)):
        members = {
            "n": NUMBERS[number % len(NUMBERS)], "m": NUMBERS[number * 5 % 13] if number % 3 else "null",
            "i": str(number % 7), "s": json.dumps(STRINGS[number * 7 % len(STRINGS)]),
            "o": OBJECTS[number % len(OBJECTS)], "l": ARRAYS[number * 3 % len(ARRAYS)],
        }  # fmt: skip
        if number % 4 == 0:
            members["b"] = "false"
        for at, name in enumerate(("s", "i", "o", "l", "n")):
            if number % (11 + at) == 0:
                del members[name]
        if number % 17 == 0:
            members["s"] = "5"  # of another type: an error
        made.append("{" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "}")
    return made


def defined_all(connection: Connection) -> UUID:
    for key, (op, paths, result_type) in FIELDS.items():
        change = define_field(connection, CITY, key, op=op, paths=paths, result_type=result_type, initiator=ME)
    assert change.task is not None
    return change.task.id


@pytest.fixture
def mixed(records: Database) -> Database:
    """A class whose rebuild is done, and then some of its values damaged in every way that a reader must see."""
    with records.engine.begin() as connection:
        put_objects(connection, CITY, [(f"k{number}", body) for number, body in enumerate(documents())])
        made = defined_all(connection)
    run(records, made, records_reindex)
    assert state(records).rebuild_status == "ready"
    return records


DAMAGE = [
    "delete from record_objects where id % 23 = 0",  # their values stay
    "delete from object_computed_data where object_id % 5 = 0",
    "update object_computed_data set evaluation_revision = 1 where object_id % 7 = 0",
    "update object_computed_data set change_seq = change_seq - 1 where object_id % 11 = 0",
    """update object_computed_data set values = values || '{"n": "x", "s": 1, "i": true, "b": 7}' where object_id % 13 = 0""",
]

Fields = dict[str, Any]


def everything(connection: Connection) -> list[Object]:
    return get_objects(connection, CITY, limit=1_000, include_computed=True, repair=False)


def values_of(one: Object) -> Fields:
    assert one.computed is not None
    return one.computed.values


def holds(value: Any, op: str, wanted: Any) -> bool:
    """The meaning of a filter, said the plain way."""
    if op == "null":
        return (value is None) is wanted
    if value is None:
        return False
    value, wanted = as_fractions(value), as_fractions(wanted)
    if op in ("eq", "ne"):
        return strictly_equal(value, wanted) is (op == "eq")
    if op == "in":
        return any(strictly_equal(value, one) for one in wanted)
    if op == "prefix":
        return bool(value[: len(wanted)] == wanted)
    if op == "contains":
        return any(value[at : at + len(wanted)] == wanted for at in range(len(value) - len(wanted) + 1))
    if isinstance(value, str):
        value, wanted = [ord(c) for c in value], [ord(c) for c in wanted]
    return bool({"lt": value < wanted, "le": value <= wanted, "gt": value > wanted, "ge": value >= wanted}[op])


def in_order(sorts: list[Sort]) -> Callable[[Object, Object], int]:
    """Null first, smaller before larger, by code point; the other way round when descending; then by id."""

    def compare(left: Object, right: Object) -> int:
        for sort in sorts:
            one, other = (place(values_of(item)[sort.field]) for item in (left, right))
            if one != other:
                return (-1 if one < other else 1) * (-1 if sort.descending else 1)
        return left.id - right.id

    return compare


def place(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (1, [ord(c) for c in value[:600]]) if isinstance(value, str) else (1, value)


def pages(connection: Connection, where: list[Filter], sorts: list[Sort], limit: int, **more: Any) -> list[Object]:
    found: list[Object] = []
    after: str | None = None
    while True:
        page = find_objects(connection, CITY, where=where, order_by=sorts, after=after, limit=limit, **more)
        assert len(page.objects) <= limit
        found += page.objects
        if page.after is None:
            return found
        after = page.after


ORDERED = ["eq", "ne", "lt", "le", "gt", "ge"]
exact = st.sampled_from([Decimal(n) for n in NUMBERS[:-2]]) | st.integers(-3, 7) | st.decimals(-4, 4, places=2)
strings = st.sampled_from(STRINGS)


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    field = draw(st.sampled_from(list(FIELDS)))
    if draw(st.integers(0, 5)) == 0:
        return Filter(field, draw(st.sampled_from(["null", "failed"])), draw(st.booleans()))
    of = {"n": exact, "i": exact, "s": strings, "b": st.booleans(), "o": st.sampled_from([{"a": 1}, {"a": True}, {"a": 1, "b": [1]}, {}]),
          "l": st.sampled_from([[1, 2], [True], [1], [], ["é"]])}[field]  # fmt: skip
    if field in "bol":
        return Filter(field, draw(st.sampled_from(["eq", "ne"])), draw(of))
    op = draw(st.sampled_from([*ORDERED, "in", *(["prefix", "contains"] if field == "s" else [])]))
    return Filter(field, op, draw(st.lists(of, min_size=1, max_size=3)) if op == "in" else draw(of))  # type: ignore[arg-type]


sorts = st.lists(
    st.builds(Sort, st.sampled_from(["n", "i", "s", "b"]), st.booleans()), max_size=2, unique_by=lambda s: s.field
)


@pytest.mark.parametrize("damaged", [False, True], ids=["fresh", "damaged"])
def test_sql_finds_what_python_finds_page_by_page_in_the_same_order(mixed: Database, damaged: bool) -> None:
    with mixed.engine.begin() as connection:
        for statement in DAMAGE if damaged else ():
            connection.execute(text(statement))
    seen: set[int] = set()

    @settings(
        max_examples=scale(250, 60), deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(filters(), max_size=2), sorts, st.sampled_from([1_000, 60, 17]))
    def agree(where: list[Filter], order_by: list[Sort], limit: int) -> None:
        wanted = [one for one in objects if all(matching(one, given) for given in where)]
        wanted.sort(key=functools.cmp_to_key(in_order(order_by)))
        found = pages(connection, where, order_by, limit)
        assert [one.key for one in found] == [one.key for one in wanted]
        assert [one.computed.values for one in found if one.computed] == [values_of(one) for one in wanted]
        seen.add(len(found))

    with mixed.engine.begin() as connection:
        objects = everything(connection)
        assert any(one.computed.stale for one in objects if one.computed) is damaged
        agree()
    assert len(seen) > 10


def matching(one: Object, given: Filter) -> bool:
    assert one.computed is not None
    if given.op == "failed":
        return (given.field in one.computed.errors) is given.value
    return holds(one.computed.values[given.field], given.op, given.value)


def test_an_object_that_is_found_by_a_damaged_value_is_judged_by_its_own(mixed: Database) -> None:
    with mixed.engine.begin() as connection:
        connection.execute(
            text("""update object_computed_data set values = values || '{"n": 777, "i": 778}' where object_id < 10""")
        )
        objects = everything(connection)
        for order_by in ([], [Sort("n")], [Sort("i", descending=True)]):
            assert pages(connection, [Filter("n", "eq", 777)], order_by, 5) == []
            found = pages(connection, [Filter("n", "gt", 2)], order_by, 5)
            assert all(values_of(one)["n"] > 2 for one in found)
        by_i = [Sort("i", descending=True)]
        found = pages(connection, [], by_i, 1_000)
        assert found == sorted(objects, key=functools.cmp_to_key(in_order(by_i)))


def test_without_filters_all_objects_come_by_id(mixed: Database) -> None:
    with mixed.engine.begin() as connection:
        assert [one.id for one in pages(connection, [], [], 40)] == [one.id for one in everything(connection)]


def test_a_class_without_fields_is_found_whole_and_has_nothing_to_filter_by(records: Database) -> None:
    with records.engine.begin() as connection:
        assert find_objects(connection, CITY).objects == []
        put_objects(connection, CITY, [("a", {}), ("b", {})])
        assert [one.key for one in find_objects(connection, CITY).objects] == ["a", "b"]
        with pytest.raises(InvalidQuery, match="no enabled field 'n': there is none"):
            find_objects(connection, CITY, where=[Filter("n", "eq", 1)])


def test_a_class_that_is_being_rebuilt_is_searched_by_evaluating(mixed: Database) -> None:
    """The values stored are those of the old definition; none of them is found, all of the new ones are."""
    with mixed.engine.begin() as connection:
        change_field(connection, CITY, "i", revision=1, initiator=ME, op="min", paths=["/i", "/n"])
        assert scalar(mixed, "select count(*) from object_computed_data") == len(everything(connection))
    with mixed.engine.begin() as connection:
        objects = everything(connection)
        wanted = [one.key for one in objects if values_of(one)["i"] == 1]
        assert 0 < len(wanted) < len([one for one in objects if values_of(one)["i"] is not None])
        for sorts_, limit in (([], 1_000), ([Sort("i")], 1_000), ([], 3), ([Sort("i")], 3)):
            assert [one.key for one in pages(connection, [Filter("i", "eq", 1)], sorts_, limit)] == wanted


def test_too_many_evaluations_refuse_a_sorted_page_and_shorten_one_by_id(mixed: Database) -> None:
    with mixed.engine.begin() as connection:
        connection.execute(text("delete from object_computed_data"))
        count = len(everything(connection))
        with pytest.raises(ValuesOutOfDate, match="over 20 objects of class 'city' have no current values"):
            find_objects(connection, CITY, order_by=[Sort("i")], evaluate_at_most=20)
        assert len(find_objects(connection, CITY, order_by=[Sort("i")], evaluate_at_most=count).objects) == 100
        page = find_objects(connection, CITY, where=[Filter("i", "gt", 100)], limit=5, evaluate_at_most=1)
        assert (page.objects, page.after is None) == ([], False)
        assert pages(connection, [Filter("i", "gt", 100)], [], 5, evaluate_at_most=1) == []


def test_a_find_repairs_nothing_and_says_what_was_evaluated(mixed: Database) -> None:
    with mixed.engine.begin() as connection:
        connection.execute(text(DAMAGE[1]))
        before = connection.execute(text("select count(*) from object_computed_data")).scalar()
        found = find_objects(connection, CITY, limit=1_000).objects
        assert {one.id for one in found if one.computed and one.computed.stale} == {
            one.id for one in found if one.id % 5 == 0
        }
        assert connection.execute(text("select count(*) from object_computed_data")).scalar() == before


def test_a_cursor_is_only_for_its_query_and_its_definitions(mixed: Database) -> None:
    query: dict[str, Any] = {"where": [Filter("i", "ge", 1)], "order_by": [Sort("n")], "limit": 5}
    with mixed.engine.begin() as connection:
        after = find_objects(connection, CITY, **query).after
        assert after is not None
        for other in (
            {"where": [Filter("i", "ge", 2)]}, {"where": []}, {"order_by": [Sort("n", descending=True)]},
            {"order_by": []}, {"order_by": [Sort("i")]},
        ):  # fmt: skip
            with pytest.raises(InvalidQuery, match="the cursor is of another query"):
                find_objects(connection, CITY, **{**query, **other}, after=after)
        drop_field(connection, CITY, "o", revision=1, initiator=ME)
        assert find_objects(connection, CITY, **query, after=after).objects
        change_field(connection, CITY, "n", revision=1, initiator=ME, op="max")
        with pytest.raises(InvalidQuery, match="or the fields have changed since"):
            find_objects(connection, CITY, **query, after=after)
