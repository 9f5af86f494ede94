"""`tenure records find`: what people and programs see of it."""

from pathlib import Path

import pytest

from tenure_records import put_objects
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.records import CITY, defined


@pytest.fixture
def tenure(records: Database, tmp_path: Path) -> Tenure:
    defined(records, "people", op="sum", paths=["/city", "/suburbs"])
    defined(records, "name", op="first_non_null", paths=["/local", "/name"], result_type="string")
    cities = [
        ("oslo", {"name": "Oslo", "city": 700_000, "suburbs": 300_000}),
        ("kyiv", {"name": "Kyiv", "local": "Київ", "city": "2950000.5", "suburbs": 1}),
        ("ny", '{"name": "New York", "city": 9007199254740993}'),
        ("nowhere", {}),
    ]
    with records.engine.begin() as connection:
        put_objects(connection, CITY, cities)  # type: ignore[arg-type]
    return Tenure(tmp_path, TENURE_DATABASE_URL=records.url)


def keys(tenure: Tenure, *arguments: str) -> list[str]:
    return [one["key"] for one in tenure.json("records", "find", CITY, *arguments)["objects"]]


def test_find_filters_and_sorts(tenure: Tenure) -> None:
    assert keys(tenure) == ["kyiv", "nowhere", "ny", "oslo"]
    assert keys(tenure, "--where", "people gt 1e6", "--sort", "people") == ["ny"]
    assert keys(tenure, "--where", "people ge 1000000", "--sort", "people:desc") == ["ny", "oslo"]
    assert keys(tenure, "--where", "people in [1000000, 7]") == ["oslo"]
    assert keys(tenure, "--where", "name eq New York") == ["ny"]
    assert keys(tenure, "--where", "name prefix Ки") == ["kyiv"]
    assert keys(tenure, "--where", "people null true", "--where", "people failed false") == ["nowhere"]
    assert keys(tenure, "--where", "people failed") == ["kyiv"]
    assert keys(tenure, "--sort", "name") == ["nowhere", "ny", "oslo", "kyiv"]


def test_find_pages_with_a_cursor_and_prints_exact_numbers(tenure: Tenure) -> None:
    first = tenure.json("records", "find", CITY, "--sort", "people:desc", "--limit", "1")
    assert first["objects"][0]["computed"] == {
        "values": {"name": "New York", "people": 9007199254740993}, "errors": {}, "stale": False,
    }  # fmt: skip
    rest = tenure.json("records", "find", CITY, "--sort", "people:desc", "--after", first["after"])
    assert ([one["key"] for one in rest["objects"]], rest["after"]) == (["oslo", "kyiv", "nowhere"], None)
    assert "9007199254740993" in tenure.line("records", "find", CITY, "--where", "name eq New York")
    assert tenure.line("records", "find", CITY, "--where", "name eq nobody") == "no object found"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--where", "people"], "write FIELD OP VALUE"),
        (["--where", "people gt many"], "'many' is no number, true, false or JSON"),
        (["--where", "size gt 1"], "no enabled field 'size': use one of name, people"),
        (["--where", "people like 1"], "'like' is none of eq"),
        (["--sort", "people:up"], "write FIELD or FIELD:desc"),
        (["--after", "nonsense"], "begin without it"),
    ],
)
def test_a_wrong_question_is_named(tenure: Tenure, arguments: list[str], says: str) -> None:
    assert says in tenure.refused(2, "records", "find", CITY, *arguments)
