"""What may be typed on the command line."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tenure.cli import values
from tenure.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("250ms", 0.25), ("1.5s", 1.5)]
)  # fmt: skip
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert values.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "0", "-5", "5x", "s", "1e5", "999999999d", "٣s", "5 m", "inf", "nan"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no duration: write 90, 90s, 5m, 2h or 1d"):
        values.duration(text)


def test_a_timeout_may_be_nothing() -> None:
    assert values.seconds("0") == 0
    assert values.seconds("2m") == 120


def test_a_time_needs_its_zone() -> None:
    assert values.moment("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert values.moment("2030-01-31T12:00+02:00") == datetime(2030, 1, 31, 10, tzinfo=UTC)
    with pytest.raises(typer.BadParameter, match="has no zone: append Z for UTC"):
        values.moment("2030-01-31T12:00")
    with pytest.raises(typer.BadParameter, match="'tomorrow' is no ISO time"):
        values.moment("tomorrow")


def test_since_is_a_time_or_how_long_ago() -> None:
    assert values.since("2h") == timedelta(hours=2)
    assert values.since("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    with pytest.raises(typer.BadParameter, match="'yesterday' is no ISO time"):
        values.since("yesterday")


def test_a_deadline_is_a_duration_or_a_time() -> None:
    assert values.deadline("60s") == timedelta(seconds=60)
    assert values.deadline("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    with pytest.raises(typer.BadParameter, match="or a duration such as 60s"):
        values.deadline("5x")


def test_an_id_is_a_uuid() -> None:
    assert values.an_id("01a22c5a-4f05-702f-8b2e-83c73ac25178") == UUID("01a22c5a-4f05-702f-8b2e-83c73ac25178")
    with pytest.raises(typer.BadParameter, match=r"'12' is no id: an id is a UUID"):
        values.an_id("12")


def test_a_long_wrong_value_is_shortened() -> None:
    with pytest.raises(typer.BadParameter) as refused:
        values.an_id("x" * 10_000)
    assert len(refused.value.message) < 200


def test_labels_are_pairs() -> None:
    assert values.labels(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(UsageError, match="write name=value"):
            values.labels([wrong])


def test_broken_json_is_named_by_line_and_column() -> None:
    with pytest.raises(typer.BadParameter, match=r"line 2, column 7: .*, near "):
        values.params('{"a": 1,\n "b": }')


@pytest.mark.parametrize("text", ["[1]", "1", '"x"', "null"])
def test_params_are_an_object(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="params are a JSON object"):
        values.params(text)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": ' + "9" * 5000 + "}", "[" * 100_000])
def test_json_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        values.params(text)
    assert len(refused.value.message) < 200


def test_params_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_bytes(b'\xef\xbb\xbf{"rows": 3}')
    assert values.params(f"@{file}") == {"rows": 3}
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(typer.BadParameter, match="is not UTF-8 at byte 7"):
        values.params(f"@{file}")
    with pytest.raises(typer.BadParameter, match="No such file"):
        values.params(f"@{tmp_path / 'missing'}")


def test_an_argument_that_is_not_utf8_is_named_by_its_place() -> None:
    with pytest.raises(UsageError, match="argument 2 is not valid UTF-8"):
        values.readable_arguments(["tasks", "\udcff"])


@given(st.text(max_size=40))
def test_whatever_is_typed_is_a_value_or_a_usage_error(text: str) -> None:
    for parse in (values.an_id, values.duration, values.moment, values.deadline, values.seconds):
        assert _answers(parse, text)


def _answers(parse: Callable[[str], object], text: str) -> bool:
    try:
        return parse(text) is not None
    except typer.BadParameter as refused:
        return "\n" not in refused.message
