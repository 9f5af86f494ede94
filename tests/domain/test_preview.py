"""A preview shows what a field would be, exactly as it would be stored, and writes nothing."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tenure.model.errors import UsageError
from tenure_records import preview_data, preview_field
from tenure_records.computed import InvalidDefinition
from tenure_records.errors import InvalidObject, NoSuchClass
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.records import CITY, computed, defined, put, scalar

SUM: dict[str, Any] = {"op": "sum", "paths": ["/a", "/b"], "result_type": "number"}


def test_a_preview_of_an_object_is_the_value_it_gets(records: Database) -> None:
    put(records, 12, b=0.1)
    with records.engine.connect() as connection:
        first = preview_field(connection, CITY, **SUM)
        named = preview_field(connection, CITY, **SUM, keys=["k11", "nope", "k3"])
        assert [one.key for one in first] == [f"k{number}" for number in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7)]
        assert [(one.key, one.value, one.error) for one in named] == [
            ("k11", Decimal("11.1"), None), ("k3", Decimal("3.1"), None),
        ]  # fmt: skip
    assert scalar(records, "select count(*) from computed_field_definitions") == 0
    defined(records)
    assert computed(records, "k11")[0] == {"total": Decimal("11.1")}


def test_a_preview_of_data_needs_no_object(records: Database) -> None:
    with records.engine.connect() as connection:
        assert preview_data(connection, {"a": 1, "b": Decimal("0.5")}, **SUM).value == Decimal("1.5")
        assert preview_data(connection, '{"a": "x"}', **SUM).error == "non_numeric_operand"
        # As stored it would be over 1 MiB, whatever it is as given.
        long = '{"a": 1, "c": [' + ",".join(["1e300"] * 4_000) + "]}"
        assert preview_data(connection, long, **SUM).error == "input_too_large"
        with pytest.raises(InvalidObject, match="must be a JSON object"):
            preview_data(connection, "[1]", **SUM)
        with pytest.raises(InvalidDefinition, match="median is unknown"):
            preview_data(connection, {}, op="median", paths=["/a"], result_type="number")


def test_a_preview_that_cannot_be_is_refused(records: Database) -> None:
    with records.engine.connect() as connection:
        for wrong in ({"limit": -1}, {"limit": 1_001}, {"keys": ["k"] * 1_001}):
            with pytest.raises(UsageError, match="at most 1000 objects"):
                preview_field(connection, CITY, **SUM, **wrong)  # type: ignore[arg-type]
        with pytest.raises(NoSuchClass):
            preview_field(connection, "nope", **SUM)
        with pytest.raises(InvalidDefinition):
            preview_field(connection, CITY, op="sum", paths=["a"], result_type="number")


def test_the_command_previews_objects_and_data(records: Database, tmp_path: Path) -> None:
    put(records, 2, b=10)
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=records.url)
    words = ["records", "field", "preview", CITY, "--op", "sum", "--path", "/a", "--path", "/b", "--type", "number"]
    assert tenure.json(*words, "--key", "k1") == [{"key": "k1", "value": 11, "error": None}]
    assert tenure.line(*words) == "k0  10\nk1  11"
    assert tenure.line(*words, "--data", '{"a": "x"}') == "--data  null  (non_numeric_operand)"
    assert "give --key or --data, not both" in tenure.refused(2, *words, "--key", "k1", "--data", "{}")
