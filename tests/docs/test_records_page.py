"""docs/records.md: its commands run as they stand, and its tables are those of the code."""

import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from tenure_records.computed import CODES
from tenure_records.computed.operations import CATALOGUE
from tenure_records.filters import OPS
from tests.docs.pages import ROOT
from tests.support.command import Tenure
from tests.support.databases import Database

PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run_one_after_the_other(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [shlex.split(line) for line in block.replace("\\\n", "").splitlines()]
    monkeypatch.chdir(tmp_path)
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=database.url)
    said = ""
    for words in lines:
        if words[0] == "printf":
            Path("cities.ndjson").write_text("".join(f"{word}\n" for word in words[2:-2]), encoding="utf-8")
        else:
            assert words[0] == "tenure"
            said += tenure.line(*words[1:]) + "\n"
    assert "2 created" in said
    assert "total = 2952301" in said
    assert re.search(r"^kyiv +\"Київ\" +2952301$\n^oslo +\"Oslo\" +1067710$", said, re.MULTILINE)


def test_the_page_names_every_operation_code_and_filter() -> None:
    for word in (*CATALOGUE, *CODES):
        assert f"`{word}`" in PAGE
    assert set(OPS) == set(
        re.findall(r"\w+", " ".join(re.findall(r"`((?:eq ne|prefix|contains|null|failed)[^`]*)`", PAGE)))
    ) & set(OPS)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    import records_app  # found through the path just added

    return records_app


def test_the_example_answers_as_it_says(app: ModuleType, database: Database) -> None:
    app.fill(database.engine)
    assert app.one(database.engine, "oslo") == ({"shown": "Oslo", "total": 1_067_710}, {})
    assert app.one(database.engine, "ys") == ({"shown": "Ys", "total": None}, {"total": "non_numeric_operand"})
    assert app.large(database.engine, 1_000_000) == ["kyiv", "oslo"]
    assert app.large(database.engine, 10**7) == []
