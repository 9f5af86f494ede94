"""Export and import: a round trip loses nothing, every line has its outcome, and a file is there whole or not at all."""

import io
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tenure.model.errors import UsageError
from tenure_records import create_class, define_field, get_objects, list_fields, put_objects
from tenure_records.cli.files import writing
from tenure_records.computed import decode
from tenure_records.errors import InvalidClass, NoSuchClass
from tenure_records.ndjson import Imported, Outcome, export, import_lines, importing
from tenure_records.ndjson.files import whole
from tenure_records.ndjson.seen import Seen
from tenure_records.retention import get_retention, set_retention
from tenure_records.schemas.activation import activate
from tenure_records.schemas.revisions import open_revisions, propose_schema
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.records import CITY, ME, define, scalar

AWKWARD = r"""{"a": 1.10, "b": 12345678901234567890123456789.000000000000000001, "c": -0, "d": 1e-300, "e": 9007199254740993,
 "z": {"": [null, true, "\u0001\u007f\u2028 \\ \" \n", {"y": [], "x": {}}]}, "ö ☃ 😀": "𝄞", "n": 1E308}"""


def taken(database: Database, body: bytes, name: str = CITY) -> tuple[Imported, list[Outcome]]:
    outcomes: list[Outcome] = []
    done = import_lines(database.engine.begin, name, io.BytesIO(body), initiator=ME, told=outcomes.append)
    return done, outcomes


def given(database: Database, name: str = CITY, *, computed: bool = False) -> bytes:
    out = io.BytesIO()
    with database.engine.connect() as connection:
        done = export(connection, name, out, computed=computed)
    assert done.objects == out.getvalue().count(b"\n") - 1
    return out.getvalue()


def data(database: Database, name: str = CITY) -> dict[str, dict[str, Any]]:
    with database.engine.connect() as connection:
        return {one.key: one.data for one in get_objects(connection, name, limit=10_000)}


def filled(database: Database, count: int = 5_000) -> None:
    with database.engine.begin() as connection:
        put_objects(connection, CITY, [("ключ \"'\\ 😀", AWKWARD.replace("\n", " "))])
        for low in range(0, count, 1_000):
            rows = [(f"k{n}", {"n": n, "d": Decimal(n) / 8, "s": "é" * (n % 50)}) for n in range(low, low + 1_000)]
            put_objects(connection, CITY, rows)


def test_a_round_trip_gives_equal_data_to_the_last_digit(records: Database) -> None:
    filled(records)
    lines = given(records)
    done, outcomes = taken(records, lines, "copy")
    assert (done.written, done.created, done.unchanged, done.refused) == (5_002, 5_001, 0, 0)
    assert [one.line for one in outcomes] == list(range(1, 5_003))
    assert (
        scalar(
            records,
            """select count(*) from record_objects a join record_objects b on a.key = b.key and a.data::text = b.data::text
           where a.class_id < b.class_id""",
        )
        == 5_001
    )
    assert sorted(given(records, "copy").splitlines()[1:]) == sorted(lines.splitlines()[1:])
    awkward = data(records, "copy")["ключ \"'\\ 😀"]
    assert (str(awkward["a"]), awkward["e"]) == ("1.10", 9007199254740993)
    assert str(awkward["b"]) == "12345678901234567890123456789.000000000000000001"


def test_what_is_stored_much_longer_than_it_was_given_comes_back(records: Database) -> None:
    with records.engine.begin() as connection:
        put_objects(connection, CITY, [("large", b'{"a": [' + b"1e300," * 60_000 + b"1]}")])
    lines = given(records)
    assert len(lines) > 17_000_000
    done, _ = taken(records, lines, "copy")
    assert (done.created, done.refused) == (1, 0)
    assert scalar(records, "select count(distinct data) from record_objects") == 1


def test_the_class_goes_with_its_description_bounds_fields_and_schema(records: Database) -> None:
    with records.engine.begin() as connection:
        create_class(connection, "town", description="Towns, tiny\tones ☃")
        define_field(
            connection, "town", "total", op="sum", paths=["/a", "/b~1c"], result_type="number", initiator=ME,
            label="The sum", description="of a and b/c", enabled=False,
        )  # fmt: skip
        define_field(connection, "town", "first", op="first_non_null", paths=["/a"], result_type="number", initiator=ME)
        set_retention(connection, "town", keep_days=1.5, keep_newest=7)
        propose_schema(
            connection, "town", '{"required": ["a"], "properties": {"a": {"multipleOf": 0.01}}}', initiator=ME
        )
    activate(records.engine.begin, "town", mode="strict", initiator=ME)
    with records.engine.begin() as connection:
        put_objects(connection, "town", [("x", {"a": Decimal("0.07")})])
    lines = given(records, "town")
    done, _ = taken(records, lines + b'{"key": "y", "data": {}}\n', "copy")
    assert (done.written, done.refused) == (2, 1)
    with records.engine.connect() as connection:
        assert list_fields(connection, "copy") == list_fields(connection, "town")
        bounds = get_retention(connection, "copy")
        assert (bounds.keep_days, bounds.keep_newest) == (1.5, 7)
        opened = open_revisions(connection, bounds.class_id)
        assert {status: one.mode for status, one in opened.items()} == {"active": "strict"}
    assert given(records, "copy").replace(b'"copy"', b'"town"') == lines
    again, outcomes = taken(records, lines, "copy")
    assert (again.written, again.unchanged, outcomes[0].outcome) == (0, 2, "unchanged")


BAD = {
    "no JSON": (b"{nope}", None, "not JSON"),
    "a list": (b"[]", None, "no JSON object"),
    "not an object as it was loaded": (b'{"key": "x", "a": 1}', "a", "unknown"),
    "no key": (b'{"data": {}}', "key", "missing"),
    "a null key": (b'{"key": null, "data": {}}', "key", "missing"),
    "a blank key": (b'{"key": "  ", "data": {}}', "key", "blank"),
    "a key that is a list": (b'{"key": [1], "data": {}}', "key", "not a list"),
    "no data": (b'{"key": "x"}', "data", "missing"),
    "data that is a list": (b'{"key": "x", "data": []}', "data", "must be a JSON object"),
    "a member twice": (b'{"key": "x", "data": {"a": 1, "a": 2}}', None, "twice"),
    "the key twice": (b'{"key": "x", "key": "y", "data": {}}', None, "twice"),
    "bad UTF-8": (b'{"key": "x", "data": {"a": "\xff"}}', None, "not UTF-8"),
    "an escaped NUL": (rb'{"key": "x", "data": {"a": "\u0000"}}', None, "u0000"),
    "half a surrogate pair": (rb'{"key": "x", "data": {"a": "\ud800"}}', None, "surrogate"),
    "a number beyond a double": (b'{"key": "x", "data": {"a": 1e400}}', None, "beyond 1e\u00b1308"),
    "numbers that would be written out too long": (
        b'{"key": "x", "data": {"a": [' + b"1e300," * 250_000 + b"1]}}",
        "data",
        "written out",
    ),
    "NaN": (b'{"key": "x", "data": {"a": NaN}}', None, "not JSON"),
    "a key of before": (b'{"key": "first", "data": {}}', "key", "given in line 1"),
    "the class in the middle": (b'{"class": {}}', "class", "first line"),
}
FIRST, LAST = b'{"key": "first", "data": {"a": 1}}\n', b'{"key": "last", "data": {"a": 2}}\n'


@pytest.mark.parametrize(("line", "field", "reason"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_and_stops_nothing(records: Database, line: bytes, field: str | None, reason: str) -> None:
    done, outcomes = taken(records, FIRST + line + b"\n" + LAST)
    assert [one.outcome for one in outcomes] == ["written", "refused", "written"]
    assert (outcomes[1].line, outcomes[1].field) == (2, field)
    assert reason in (outcomes[1].reason or "")
    assert (done.lines, done.written, done.refused) == (3, 2, 1)
    assert data(records) == {"first": {"a": 1}, "last": {"a": 2}}


def test_a_schema_keeps_its_numbers_and_may_name_some_that_no_object_may_hold(records: Database) -> None:
    numbers = b'{"maximum": 1e400, "minimum": 1234567890123456789.000000000000000001}'
    line = b'{"class": {"schema": {"mode": "strict", "schema": ' + numbers + b"}}}\n"
    done, _ = taken(records, line + FIRST, "copy")
    assert (done.written, done.refused) == (2, 0)
    assert decode(scalar(records, "select schema from schema_revisions")) == decode(numbers)
    assert taken(records, given(records, "copy"), "copy")[0].unchanged == 2


def test_an_object_that_the_strict_schema_refuses_is_named_with_its_place(records: Database) -> None:
    with records.engine.begin() as connection:
        propose_schema(connection, CITY, '{"properties": {"a": {"maximum": 1}}}', initiator=ME)
    activate(records.engine.begin, CITY, mode="strict", initiator=ME)
    done, outcomes = taken(records, FIRST + LAST + FIRST.replace(b"first", b"third"))
    assert [one.outcome for one in outcomes] == ["written", "refused", "written"]
    assert (outcomes[1].key, outcomes[1].field) == ("last", "data/a")
    assert "maximum" in (outcomes[1].reason or "")
    assert (done.written, done.refused) == (2, 1)


def test_nothing_of_a_line_but_its_key_is_in_its_outcome(records: Database) -> None:
    for line, _, _ in BAD.values():
        hidden = line.replace(b'"a"', b'"hush-hush"').replace(b"{nope}", b"{hush-hush}")
        if b"unknown" not in hidden and b'"hush-hush": 1}' not in hidden[:24]:
            assert all(
                "hush-hush" not in json.dumps(one.document())
                for one in taken(records, hidden)[1]
                if one.field != "hush-hush"
            )


HEADERS = {
    "a field of another kind": (
        {"fields": [{"key": "total", "op": "max", "paths": ["/a"], "result_type": "number"}]},
        "class.fields[0]",
    ),
    "a field that cannot be": (
        {"fields": [{"key": "new", "op": "none", "paths": [], "result_type": "x"}]},
        "class.fields[0]",
    ),
    "a member that is missing": ({"fields": [{"key": "new"}]}, "class.fields.0.op"),
    "an unknown member": ({"size": 1}, "class.size"),
    "a schema that cannot be": ({"schema": {"schema": {"type": 3}}}, "class.schema"),
}


@pytest.mark.parametrize(("line", "field"), HEADERS.values(), ids=HEADERS.keys())
def test_a_class_line_that_cannot_be_changes_nothing_and_the_objects_go_in(
    records: Database, line: dict[str, Any], field: str
) -> None:
    with records.engine.begin() as connection:
        define(connection)
    good = [{"key": "other", "op": "sum", "paths": ["/a", "/b"], "result_type": "number"}]
    line = {**line, "fields": [*line.get("fields", [])]}
    line["fields"] = line["fields"] + good
    done, outcomes = taken(records, json.dumps({"class": line}).encode() + b"\n" + FIRST)
    assert (outcomes[0].outcome, outcomes[0].field) == ("refused", field)
    assert (done.written, done.refused) == (1, 1)
    with records.engine.connect() as connection:
        assert [one.key for one in list_fields(connection, CITY)] == ["total"]
        assert open_revisions(connection, 1) == {}


def test_an_import_that_broke_off_is_run_again_and_what_was_told_had_committed(
    records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_LINES", 100)
    lines = b"".join(b'{"key": "k%d", "data": {"n": %d}}\n' % (n, n) for n in range(1_000))
    told: list[Outcome] = []

    class Broken(Exception):
        pass

    def tell(outcome: Outcome) -> None:
        told.append(outcome)
        if outcome.line == 550:
            raise Broken

    with pytest.raises(Broken):
        import_lines(records.engine.begin, CITY, io.BytesIO(lines), initiator=ME, told=tell)
    stored = data(records)
    assert {one.key for one in told} <= set(stored)
    assert len(stored) == 600
    done, outcomes = taken(records, lines)
    assert (done.unchanged, done.written) == (600, 400)
    assert [one.line for one in outcomes] == list(range(1, 1_001))


def test_an_export_is_of_one_moment_and_computed_values_are_right(records: Database) -> None:
    with records.engine.begin() as connection:
        define(connection)
        put_objects(connection, CITY, [(f"k{n}", {"a": n, "b": Decimal("0.1")}) for n in range(1_200)])
        connection.execute(text("delete from object_computed_data where object_id % 2 = 0"))
    before = scalar(records, "select count(*) from object_computed_data")
    lines = [json.loads(line) for line in given(records, computed=True).splitlines()[1:]]
    assert {line["key"]: line["computed"]["values"]["total"] for line in lines} == {
        f"k{n}": n + 0.1 for n in range(1_200)
    }
    assert scalar(records, "select count(*) from object_computed_data") == before, "an export writes nothing"
    done, _ = taken(records, given(records, computed=True))
    assert (done.written, done.refused) == (0, 0)


def test_while_an_export_runs_writers_change_nothing_in_it(records: Database) -> None:
    filled(records, 2_000)

    class Meddling(io.BytesIO):
        done = False

        def write(self, chunk: Any) -> int:
            if not self.done:
                self.done = True
                with records.engine.begin() as connection:
                    put_objects(connection, CITY, [("k1999", {"changed": True}), ("late", {})])
            return super().write(chunk)

    for computed in (False, True):
        out = Meddling()
        with records.engine.connect() as connection:
            export(connection, CITY, out, computed=computed)
        keys = [json.loads(line).get("key") for line in out.getvalue().splitlines()]
        assert len(keys) == 2_002 + computed
        with records.engine.begin() as connection:
            put_objects(connection, CITY, [("k1999", {"n": 1})])


def test_keys_seen_are_remembered_by_their_first_line() -> None:
    with Seen() as seen:
        assert [seen.first("a", 1), seen.first("b", 2), seen.first("a", 3)] == [1, 2, 1]


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "city.ndjson"
    path.write_bytes(b"before")

    def breaking() -> None:
        with whole(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaking()
    assert path.read_bytes() == b"before"
    with whole(path) as file:
        file.write(b"all")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"all", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    (tmp_path / "real").write_bytes(b"before")
    link.symlink_to("real")
    with whole(link) as file:
        file.write(b"all")
    assert (link.is_symlink(), (tmp_path / "real").read_bytes()) == (True, b"all")
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UsageError, match="it is no file"), whole(path):
            pass
    assert pipe.is_fifo()


def test_outcomes_never_go_where_the_lines_come_from(tmp_path: Path) -> None:
    source, link = tmp_path / "city.ndjson", tmp_path / "link"
    source.write_bytes(b"{}\n")
    link.symlink_to(source)
    with source.open("rb") as lines:
        for path in (source, link):
            with pytest.raises(UsageError, match="it is the file to be read"), writing(path, lines):
                pass
        with pytest.raises(UsageError, match="No space left"), writing(Path("/dev/full"), lines) as w:
            w(b"x" * 100_000)
    assert source.read_bytes() == b"{}\n"


def test_unknown_classes_and_names_that_cannot_be_are_refused_before_anything_is_written(records: Database) -> None:
    out = io.BytesIO()
    with records.engine.connect() as connection, pytest.raises(NoSuchClass):
        export(connection, "nowhere", out)
    assert out.getvalue() == b""
    with pytest.raises(InvalidClass):
        taken(records, FIRST, "\x1b")


def test_the_command_line_exports_and_imports(records: Database, broker_url: str, tmp_path: Path) -> None:
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=records.url, TENURE_BROKER_URL=broker_url)
    filled(records, 1_000)
    file, outcomes = tmp_path / "city.ndjson", tmp_path / "outcomes.ndjson"
    assert tenure.json("records", "export", CITY, "--output", str(file))["objects"] == 1_001
    printed = tenure("records", "export", CITY)
    assert (printed.returncode, printed.stdout.encode()) == (0, file.read_bytes())
    file.write_bytes(file.read_bytes() + b"{nope}\n")
    done = tenure("records", "import", "copy", str(file), "--outcomes", str(outcomes), "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["written"], said["created"], said["refused"]) == (1, 1_002, 1_001, 1)
    assert said["errors"][0]["line"] == 1_003
    written = [json.loads(line) for line in outcomes.read_text().splitlines()]
    assert (len(written), written[-1]["outcome"], written[1]["outcome"]) == (1_003, "refused", "written")
    assert "line 1003: the document is not JSON" in done.stderr
    assert "cannot write" in tenure.refusal(2, "records", "export", CITY, "--output", str(tmp_path / "no" / "x"))
    assert "--output" in tenure.refusal(2, "records", "export", CITY, "--json")
    assert "no class 'nowhere'" in tenure.refusal(1, "records", "export", "nowhere", "--output", str(tmp_path / "y"))
    assert not (tmp_path / "y").exists()
