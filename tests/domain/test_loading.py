"""Loading: every line that cannot be an object is named, and nothing is ever half written."""

import io
from typing import Literal

import pytest

from tenure_records import Loaded, get_object, load
from tenure_records.errors import InvalidClass, NoSuchClass
from tenure_records.load import BATCH_LINES, LINE_BYTES
from tests.support.databases import Database
from tests.support.records import CITY, defined, scalar, stored

GOOD = b'{"key": "first", "a": 1}\n'
LAST = b'{"key": "last", "a": 2}\n'
SECRET = "hush-hush"

BAD = {
    "no JSON": (b"{nope}", "not JSON"),
    "cut off": (b'{"key": "x", "a": ', "not JSON"),
    "two values": (b'{"key": "x"} {"key": "y"}', "not JSON"),
    "NaN": (b'{"key": "x", "a": NaN}', "not JSON"),
    "a list": (b'[{"key": "x"}]', "no JSON object"),
    "a string": (b'"key"', "no JSON object"),
    "bad UTF-8": (b'{"key": "x", "a": "\xff\xfe"}', "not UTF-8"),
    "half a surrogate pair": (rb'{"key": "x", "a": "\ud800"}', "surrogate"),
    "a NUL byte": (b'{"key": "x", "a": "\x00"}', "NUL"),
    "an escaped NUL": (rb'{"key": "x", "a": "\u0000"}', "u0000"),
    "a member twice": (b'{"key": "x", "a": 1, "a": 2}', "twice"),
    "an inner member twice": (b'{"key": "x", "a": [{"b": 1, "b": 2}]}', "twice"),
    "no key": (b'{"a": 1}', "missing"),
    "a null key": (b'{"key": null}', "missing"),
    "a blank key": (b'{"key": "  "}', "blank"),
    "a key that is a list": (b'{"key": ["x"]}', "not a list"),
    "a key that is a fraction": (b'{"key": 1.5}', "not a number"),
    "a key that is true": (b'{"key": true}', "not true or false"),
    "a long key": (b'{"key": "' + b"x" * 256 + b'"}', "256 bytes"),
    "a control character in the key": (rb'{"key": "a\nb"}', "control character"),
    "a key twice": (GOOD, "in line 1"),
    "more than 1 MiB": (b'{"key": "x", "a": "' + b"y" * LINE_BYTES + b'"}', "longer than"),
    "far more than 1 MiB": (b"z" * (5 * LINE_BYTES), "longer than"),
    "too deep": (b'{"key": "x", "a": ' + b"[" * 500 + b"]" * 500 + b"}", "deep"),
    "201 levels": (b'{"key": "x", "a": ' + b"[" * 200 + b"]" * 200 + b"}", "200 levels"),
    "a number that PostgreSQL refuses": (b'{"key": "x", "a": 1e200000}', "number"),
    "a number that no double holds": (b'{"key": "x", "a": 1e400}', "1e±308"),
    "that number written out": (b'{"key": "x", "a": 1' + b"0" * 400 + b"}", "1e±308"),
    "a number nearer to zero than any double": (b'{"key": "x", "a": [-1e-400]}', "1e±308"),
}


def loaded(records: Database, body: bytes, on_error: Literal["skip", "abort"] = "skip", key: str = "key") -> Loaded:
    return load(records.engine.begin, CITY, io.BytesIO(body), key=key, on_error=on_error)


def objects(records: Database) -> int:
    return int(scalar(records, "select count(*) from record_objects"))


@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD.keys())
def test_skip_names_the_bad_line_and_loads_the_rest(records: Database, line: bytes, reason: str) -> None:
    done = loaded(records, GOOD + line.removesuffix(b"\n") + b"\n" + LAST)
    assert [error.line for error in done.errors] == [2]
    assert reason in done.errors[0].reason
    assert (done.lines, done.refused, done.put.created) == (3, 1, 2)
    assert objects(records) == 2


@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD.keys())
def test_abort_names_the_bad_line_and_loads_nothing(records: Database, line: bytes, reason: str) -> None:
    done = loaded(records, GOOD + line.removesuffix(b"\n") + b"\n" + LAST, "abort")
    assert [error.line for error in done.errors] == [2]
    assert reason in done.errors[0].reason
    assert done.rolled_back
    assert done.put.created == 0
    assert objects(records) == 0


def test_abort_takes_back_the_batches_before_the_bad_line(records: Database) -> None:
    many = b"".join(b'{"key": %d}\n' % n for n in range(BATCH_LINES + 1))
    done = loaded(records, many + b"nope\n" + b"neither\n", "abort")
    assert [error.line for error in done.errors] == [BATCH_LINES + 2, BATCH_LINES + 3]
    assert objects(records) == 0


def test_a_reason_never_shows_the_data_of_a_line(records: Database) -> None:
    for line, _ in BAD.values():
        hidden = line.replace(b'"a"', b'"%s"' % SECRET.encode()).replace(b"{nope}", b"{%s}" % SECRET.encode())
        assert all(SECRET not in error.reason for error in loaded(records, hidden).errors)


def test_numbers_keep_every_digit(records: Database) -> None:
    loaded(records, b'{"key": "k", "a": 1.10, "b": 12345678901234567890.123456789}\n')
    with records.engine.connect() as connection:
        data = get_object(connection, CITY, "k").data
    assert str(data["b"]) == "12345678901234567890.123456789"


def test_whole_numbers_may_be_keys_and_another_member_may_be_named(records: Database) -> None:
    assert loaded(records, b'{"id": 7}\n{"id": "8"}\n', key="id").put.created == 2
    assert scalar(records, "select string_agg(key, ',' order by key) from record_objects") == "7,8"


def test_a_byte_order_mark_blank_lines_crlf_and_a_missing_last_newline_do_no_harm(records: Database) -> None:
    done = loaded(records, b'\xef\xbb\xbf{"key": "a"}\r\n\r\n   \n{"key": "b"}')
    assert (done.lines, done.refused, done.put.created) == (2, 0, 2)


def test_colons_and_quotes_inside_strings_are_no_second_member(records: Database) -> None:
    assert loaded(records, rb'{"key": "a", "b": "\"a\": \"a\":", "c": {"key": 1}}').refused == 0


def test_loading_again_changes_only_what_differs(records: Database) -> None:
    loaded(records, GOOD + LAST)
    again = loaded(records, b'{"a": 1.0, "key": "first"}\n{"key": "last", "a": 3}\n{"key": "new"}\n').put
    assert (again.created, again.changed, again.unchanged) == (1, 1, 1)
    assert scalar(records, "select revision from record_objects where key = 'first'") == 1


def test_loaded_objects_are_materialised_at_once(records: Database) -> None:
    defined(records)
    loaded(records, GOOD + LAST)
    assert stored(records) == [("first", 1, {"total": 1}), ("last", 1, {"total": 2})]


def test_more_than_a_hundred_bad_lines_are_counted_and_a_hundred_shown(records: Database) -> None:
    done = loaded(records, b"nope\n" * 150)
    assert (done.refused, len(done.errors)) == (150, 100)


def test_a_class_that_does_not_exist_is_refused_before_a_line_is_read(records: Database) -> None:
    lines = io.BytesIO(GOOD)
    with pytest.raises(NoSuchClass):
        load(records.engine.begin, "nowhere", lines)
    assert lines.tell() == 0


@pytest.mark.parametrize("on_error", ["skip", "abort"])
@pytest.mark.parametrize("body", [b"", b"{nope}\n"])
def test_a_load_of_nothing_leaves_no_new_class(
    database: Database, body: bytes, on_error: Literal["skip", "abort"]
) -> None:
    load(database.engine.begin, CITY, io.BytesIO(body), on_error=on_error, create=True)
    assert scalar(database, "select count(*) from record_classes") == 0
    assert load(database.engine.begin, CITY, io.BytesIO(GOOD), on_error=on_error, create=True).put.created == 1
    assert scalar(database, "select count(*) from record_classes") == 1


def test_a_bad_line_after_the_first_batch_takes_the_new_class_back(database: Database) -> None:
    many = b"".join(b'{"key": "k%d"}\n' % number for number in range(BATCH_LINES + 1))
    done = load(database.engine.begin, CITY, io.BytesIO(many + b"{nope}\n"), create=True)
    assert (done.rolled_back, scalar(database, "select count(*) from record_classes")) == (True, 0)


def test_a_name_that_no_class_can_have_is_refused_before_a_line_is_read(database: Database) -> None:
    with pytest.raises(InvalidClass, match="printable"):
        load(database.engine.begin, "\x1b", io.BytesIO(b""), create=True)
