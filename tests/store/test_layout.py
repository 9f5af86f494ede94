"""Rules about the sources themselves that no linter knows."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("platform", "workers", "beat")
LONGEST = 400
TRANSITIONS = Path("platform/tenure/store/transitions")

# One writer of each state column: who moves a task or makes or takes a lease is one of the transitions.
MOVES = re.compile(
    r"(update|insert\s+into|merge\s+into)\s+(only\s+)?tasks\b|(insert\s+into|delete\s+from)\s+task_leases\b"
    r"|(update|insert|delete)\(\s*(tables\.)?(tasks|task_leases)\s*\)|\b(tasks|task_leases)\.(update|insert|delete)\(",
    re.IGNORECASE,
)
# A lease's own time is no state: renewing it is not a move.
RENEWS = re.compile(r"update\s+task_leases\b", re.IGNORECASE)


def _sources() -> Iterator[tuple[Path, str]]:
    for top in SOURCES:
        for path in sorted((ROOT / top).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text()


def test_only_the_transitions_move_a_task() -> None:
    found = {path for path, text in _sources() if MOVES.search(text)}
    assert {path.parent for path in found} == {TRANSITIONS}


def test_only_the_renewal_updates_a_lease() -> None:
    assert {path for path, text in _sources() if RENEWS.search(text)} == {Path("platform/tenure/store/leases.py")}


def test_the_search_for_moves_finds_every_way_to_write_one() -> None:
    for move in (
        "update tasks set state", "UPDATE  tasks\nset", "insert into tasks (", "delete from task_leases where",
        "insert into task_leases (", "update(tasks)", "insert(tables.tasks)", "tasks.update()", "task_leases.delete()",
    ):  # fmt: skip
        assert MOVES.search(move), move
    for other in ("update task_leases set renewed", "from tasks where", "select(tasks)", "update task_checkpoints"):
        assert not MOVES.search(other), other


def test_no_source_file_is_longer_than_400_lines() -> None:
    assert {str(path): n for path, text in _sources() if (n := len(text.splitlines())) > LONGEST} == {}


def test_no_top_directory_is_a_package() -> None:
    """`platform/__init__.py` would shadow the standard library's module of that name."""
    assert [top for top in SOURCES if (ROOT / top / "__init__.py").exists()] == []
