"""`tenure records schema`: what it prints, as JSON and for people, and how it refuses."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.executing import run

SCHEMA = '{"required": ["name"]}'


@pytest.fixture
def tenure(tmp_path: Path, database: Database) -> Tenure:
    (tmp_path / "schema.json").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "objects.ndjson").write_text('{"key": "a", "name": "x"}\n{"key": "b"}\n', encoding="utf-8")
    made = Tenure(tmp_path, TENURE_DATABASE_URL=database.url)
    made.line("records", "load", "thing", str(tmp_path / "objects.ndjson"))
    return made


def schema(*words: str) -> list[str]:
    return ["records", "schema", words[0], "thing", *words[1:]]


def test_every_step_prints_one_document(tenure: Tenure, tmp_path: Path, database: Database) -> None:
    file = str(tmp_path / "schema.json")
    made = tenure.json(*schema("propose", file, "--revision", "0"))
    assert (made["number"], made["status"], made["mode"]) == (1, "proposed", None)
    scan = tenure.json(*schema("impact"))
    assert scan["created"]
    again = tenure.json(*schema("impact"))
    assert (again["task_id"], again["created"]) == (scan["task_id"], False)
    run(database, UUID(scan["task_id"]), records_schema_validation)
    shown = tenure.json(*schema("show"))["open"][0]
    assert (shown["valid"], shown["invalid"], shown["unscanned"]) == (1, 1, 0)
    assert shown["scan"]["state"] == "succeeded"
    refused = tenure(*schema("activate", "--mode", "strict", "--json"))
    document = json.loads(refused.stdout)
    assert (refused.returncode, document["activated"], document["invalid"]) == (1, False, 1)
    assert document["samples"] == [
        {"key": "b", "standing": "invalid", "findings": [{"pointer": "/name", "keyword": "required"}]}
    ]
    advisory = tenure.json(*schema("activate", "--mode", "advisory"))
    assert (advisory["activated"], advisory["mode"], advisory["status"]) == (True, "advisory", "active")
    assert "revision 1, active" in tenure.line(*schema("show"))
    made = tenure.json(*schema("revalidate"))
    run(database, UUID(made["task_id"]), records_schema_validation)
    assert "b is invalid at /name: required" in tenure.line(*schema("show"))


def test_what_cannot_be_is_refused_in_one_line(tenure: Tenure, tmp_path: Path) -> None:
    file, wrong = str(tmp_path / "schema.json"), tmp_path / "wrong.json"
    wrong.write_bytes(b"\xff")
    assert "no proposed schema" in tenure.refused(1, *schema("impact"))
    assert "no active schema" in tenure.refused(1, *schema("revalidate"))
    assert "no schema" in tenure.refused(1, *schema("activate", "--mode", "strict"))
    assert "not UTF-8" in tenure.refused(2, *schema("propose", str(wrong)))
    wrong.write_text('{"type": "nothing"}', encoding="utf-8")
    assert "at /type" in tenure.refused(2, *schema("propose", str(wrong)))
    assert "is 0, not 3" in tenure.refused(1, *schema("propose", file, "--revision", "3"))
    assert "cannot read" in tenure.refused(2, *schema("propose", str(tmp_path / "none")))
    assert "no class 'nobody'" in tenure.refused(1, "records", "schema", "show", "nobody")
    assert "'loose'" in tenure.refused(2, *schema("activate", "--mode", "loose"))
