"""Questions that cannot be answered are refused with what is wrong about them, before PostgreSQL sees them."""

from decimal import Decimal

import pytest
from sqlalchemy import text

from tenure.model.errors import UsageError
from tenure_records import Filter, Sort, define_field, find_objects
from tenure_records.errors import InvalidQuery, NoSuchClass
from tests.support.databases import Database
from tests.support.records import CITY, ME

TYPES = {"n": "number", "i": "integer", "s": "string", "b": "boolean", "o": "object", "l": "array"}
OPS = {"n": "sum", "i": "max", "b": "all_present"}


@pytest.fixture
def fields(records: Database) -> Database:
    """A field of each type, without an object."""
    with records.engine.begin() as connection:
        for key, result_type in TYPES.items():
            op = OPS.get(key, "first_non_null")
            define_field(connection, CITY, key, op=op, paths=[f"/{key}"], result_type=result_type, initiator=ME)
    return records


@pytest.mark.parametrize("cursor", ["", "nope", "é", "bnVsbA==", "WzEsMixbXV0=", "x" * 70_000, "\ud800"])
def test_what_is_no_cursor_is_refused(fields: Database, cursor: str) -> None:
    with fields.engine.begin() as connection, pytest.raises(InvalidQuery, match="begin without it"):
        find_objects(connection, CITY, order_by=[Sort("n")], after=cursor)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ([Filter("nope", "eq", 1)], "no enabled field 'nope': use one of b, i, l, n, o, s"),
        ([Filter("n", "like", 1)], "n is a field of type number: 'like' is none of eq"),
        ([Filter("b", "lt", True)], "b is a field of type boolean"),
        ([Filter("n", "eq", float("inf"))], "cannot be stored"),
        ([Filter("n", "eq", "1")], "n: '1' is no number"),
        ([Filter("n", "eq", True)], "n: 'True' is no number"),
        ([Filter("n", "eq", Decimal("nan"))], "cannot be stored"),
        ([Filter("n", "eq", Decimal("1e200000"))], "cannot be stored"),
        ([Filter("s", "eq", "\0")], "cannot be stored"),
        ([Filter("s", "eq", "\ud800")], "cannot be stored"),
        ([Filter("o", "eq", {"a": [float("nan")]})], "cannot be stored"),
        ([Filter("s", "in", [])], "takes a list of 1 to 100 values"),
        ([Filter("s", "in", "abc")], "takes a list"),
        ([Filter("s", "null", 1)], "takes true or false"),
        ([Filter("i", "eq", 1)] * 3, "at most 2 filters"),
    ],
)
def test_a_filter_that_the_fields_do_not_allow_is_named(fields: Database, where: list[Filter], says: str) -> None:
    with fields.engine.begin() as connection:
        with pytest.raises(InvalidQuery) as caught:
            find_objects(connection, CITY, where=where)
        assert says in str(caught.value)
        str(caught.value).encode()
        connection.execute(text("select 1"))


@pytest.mark.parametrize(
    ("order_by", "says"),
    [
        ([Sort("o")], "o is of type object, which has no order"),
        ([Sort("nope")], "no enabled field 'nope'"),
        ([Sort("n"), Sort("n", True)], "at most 2 fields, each once"),
        ([Sort("n"), Sort("i"), Sort("s")], "at most 2 fields"),
    ],
)
def test_a_sort_that_the_fields_do_not_allow_is_named(fields: Database, order_by: list[Sort], says: str) -> None:
    with fields.engine.begin() as connection, pytest.raises(InvalidQuery, match=says):
        find_objects(connection, CITY, order_by=order_by)


def test_outside_a_transaction_a_find_is_refused(records: Database) -> None:
    with records.engine.connect() as connection:
        automatic = connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(UsageError, match="needs a transaction"):
            find_objects(automatic, CITY)


def test_a_wrong_page_and_a_missing_class_are_refused(records: Database) -> None:
    with records.engine.begin() as connection:
        for limit in (0, 1_001):
            with pytest.raises(UsageError, match="limit must be 1 to 1000"):
                find_objects(connection, CITY, limit=limit)
        with pytest.raises(NoSuchClass):
            find_objects(connection, "nope")
