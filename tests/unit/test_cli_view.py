"""How progress looks, on wide and narrow terminals and where nothing can be drawn."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from tenure.cli import view
from tenure.cli.measured import Bar, Measured, counted, document, length, paced, time_left
from tenure.cli.view import Lines, Screen, visible

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TASK, OTHER = UUID(int=1), UUID(int=2)


def phase(path: str, status: str = "running", *, task: UUID = TASK, ago: float | None = 10.0, **values: Any) -> Any:
    started = None if ago is None or status in ("pending", "skipped") else NOON - timedelta(seconds=ago)
    ended = NOON if status in ("completed", "failed", "stopped") else None
    return {
        "task_id": task, "path": path, "status": status, "done": None, "total": None, "message": None,
        "started_at": started, "ended_at": ended, "updated_at": NOON, **values,
    }  # fmt: skip


def seen(*phases: Any, at: float = 0.0, **values: Any) -> dict[str, Any]:
    return {"at": NOON + timedelta(seconds=at), "phases": list(phases), "processed": None, "total": None, **values}


def bars(*phases: Any) -> Sequence[Bar]:
    return Measured().bars(seen(*phases))


def drawn(title: str, shown: Sequence[Bar], width: int = 100, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(Screen(title, shown))
    return [line.rstrip() for line in capture.get().splitlines()]


ALL = (
    phase("connect", "completed"), phase("import"), phase("import/users", "completed", done=50_000, total=50_000),
    phase("import/groups", done=9_300, total=120_000, message="page 31"), phase("export", "failed", done=3, total=10),
    phase("reconcile", "skipped"), phase("handover", "stopped"), phase("settle", "pending"),
)  # fmt: skip


def test_a_phase_is_a_line_with_its_mark_within_what_it_is_in() -> None:
    lines = drawn("records.reindex  running", bars(*ALL))
    assert lines[0] == "records.reindex  running"
    assert [(line[0], line[2:].split("━")[0].split("  10s")[0].rstrip()) for line in lines[1:5]] == [
        ("✓", "connect"), ("▸", "import"), ("✓", "  users"), ("▸", "  groups"),
    ]  # fmt: skip
    assert [line[0] for line in lines[5:]] == ["✗", "-", "■", "·"]
    assert "50,000/50,000" in lines[3]
    assert "9,300/120,000" in lines[4]
    assert lines[4].endswith("page 31")
    assert "failed" in lines[5]
    assert "skipped" in lines[6]
    assert "━" not in lines[2], "what others are within has no bar of its own"


@pytest.mark.parametrize("width", [40, 56, 80, 100, 200])
def test_no_figure_and_no_mark_is_cut_on_a_narrow_terminal(width: int) -> None:
    lines = drawn("x", bars(*ALL), width)
    assert len(lines) == 1 + len(ALL)
    assert all(len(line) <= width for line in lines)
    assert "50,000/50,000" in lines[3]
    assert "9,300/120,000" in lines[4]
    assert "▸" in lines[4]
    assert ("━" in lines[4]) == (width >= 80)


def test_what_a_phase_says_cannot_steer_the_terminal() -> None:
    lines = drawn("x", bars(phase("a\x1b[2J[bold]b", message="c\x1b]0;d\a")))
    assert "a�[2J[bold]b" in lines[1]
    assert lines[1].endswith("c�]0;d�")


def test_more_phases_than_lines_are_shown_around_the_one_that_runs() -> None:
    many = bars(
        *(phase(f"page {n}", "completed" if n < 150 else "running" if n == 150 else "pending") for n in range(200))
    )
    lines = drawn("x", many, height=24)
    assert len(lines) < 24
    assert any("page 150" in line for line in lines)
    assert lines[-1] == f"  and {200 - len(visible(many, 20))} more phases"


def test_rate_and_time_left_come_with_the_second_write() -> None:
    measured = Measured()
    (first,) = measured.bars(seen(phase("a", done=100, total=1000)))
    assert (paced(first), time_left(first)) == ("", "")
    later = phase("a", done=200, total=1000, updated_at=NOON + timedelta(seconds=2))
    (bar,) = measured.bars(seen(later, at=2.0))
    assert (paced(bar), time_left(bar), counted(bar)) == ("50/s", "16s left", "200/1,000")
    (found,) = document(seen(later, at=2.0), [bar])["phases"]
    assert (found["rate"], found["seconds_left"], found["finishing"]) == (50, 16, False)


def test_a_phase_that_has_counted_all_is_finishing_up() -> None:
    (bar,) = bars(phase("a", done=1000, total=1000))
    assert time_left(bar) == "finishing up"


def test_a_task_without_phases_is_its_counters() -> None:
    measured = Measured()
    started = NOON - timedelta(seconds=8)
    of = {"state": "running", "started_at": started, "finished_at": None}
    measured.bars(seen(**of) | {"processed": 10, "total": 100})
    (bar,) = measured.bars(seen(at=1.0, **of) | {"processed": 20, "total": 100})
    assert (bar.name, counted(bar), paced(bar), time_left(bar), bar.seconds) == (
        "processed",
        "20/100",
        "10/s",
        "8.0s left",
        9,
    )
    assert measured.bars(seen(**of)) == [], "nothing is counted yet"


def test_phases_of_tasks_that_share_an_activity_are_told_apart() -> None:
    one, other = bars(phase("a"), phase("a", task=OTHER))
    assert one.path != other.path
    assert {one.path[-2:], other.path[-2:]} == {"/a"}


def test_where_nothing_can_be_drawn_each_change_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    lines = Lines(said.append)
    lines.show("probe  queued", [])
    lines.show("probe  running", bars(phase("a", "pending"), phase("b", "pending")))
    lines.show("probe  running", bars(phase("a", done=1, total=9), phase("b", "pending")))
    lines.show("probe  running", bars(phase("a", done=2, total=9), phase("b", "pending")))
    lines.show("probe  running", bars(phase("a", "completed", done=9, total=9), phase("b", message="last")))
    assert said == [
        "probe  queued", "probe  running", "phases: a, b", "a: 1/9", "a: completed after 10s, 9/9", "b: last",
    ]  # fmt: skip
    monkeypatch.setattr(view, "TELLING", 0.0)
    lines.show("probe  running", bars(phase("a", "completed", done=9, total=9), phase("b", done=5)))
    assert said[-1] == "b: 5", "now and then it says how far it is"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.6, "1m 00s"),
        (125.2, "2m 05s"),
        (3600, "1h 00m"),
        (90_000, "25h 00m"),
    ],
)
def test_lengths_of_time_are_short(seconds: float, text: str) -> None:
    assert length(seconds) == text
