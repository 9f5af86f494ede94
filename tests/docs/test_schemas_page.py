"""docs/schemas.md: its commands run as they stand, from a messy class to a strict schema, and say what the page says."""

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.docs.pages import ROOT
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.executing import executor
from tests.support.records import scalar

PAGE = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")


@contextmanager
def at_work(database: Database) -> Iterator[None]:
    """Somebody who runs what is queued, as a worker would."""
    done = threading.Event()

    def work() -> None:
        with executor(database, records_schema_validation) as made:
            while not done.wait(0.02):
                if queued := scalar(database, "select id from tasks where state = 'queued'"):
                    made.run(queued)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_the_commands_of_the_page_lead_to_a_strict_schema(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=database.url)

    def run(block: str) -> tuple[str, str]:
        """What all but the last command say, and what the last says, which is refused."""
        *lines, last = [shlex.split(line) for line in block.replace("\\\n", "").splitlines()]
        said = ""
        for words in lines:
            if words[0] == "printf":
                Path(words[-1]).write_text("".join(f"{word}\n" for word in words[2:-2]), encoding="utf-8")
            else:
                said += tenure.line(*words[1:]) + "\n"
        refused = tenure(*last[1:])
        assert refused.returncode == 1
        return said, refused.stderr + refused.stdout

    with at_work(database):
        said, refused = run(first)
        assert re.search(r"^invalid +2$", said, re.MULTILINE)
        head, _, tail = shown[0].partition("…")
        assert refused.startswith(head)
        assert refused.endswith(tail.lstrip("\n"))
        said, refused = run(second)
    assert "0 created, 2 changed" in said
    assert "revision 1 is active, strict" in said
    assert shown[1] in refused
    assert scalar(database, "select array_agg(key order by key) from record_objects") == ["ada", "bob", "cyd"]
