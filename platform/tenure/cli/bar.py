"""The progress bar of one task, on stderr: counters, rows per second, attempt and token."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from tenure.cli.output import console, plain


class _Counted(ProgressColumn):
    def render(self, task: Task) -> Text:
        total = "?" if task.total is None else f"{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}/{total}")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} rows/s")


class Bar:
    """Feed it snapshots of store/progress.py."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Counted(),
            _Speed(),
            TextColumn("{task.fields[attempt]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console(stderr=True), refresh_per_second=5)
        self._task = self._progress.add_task("", total=None, attempt="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def update(self, seen: dict[str, Any]) -> None:
        """Show the task as it is now. A later attempt may count from less than an earlier one: the bar follows."""
        token = f", token {seen['token']}" if seen["token"] else ""
        self._progress.update(
            self._task,
            description=f"{plain(seen['kind'])}  {seen['state']}",
            completed=seen["processed"] or 0,
            total=seen["total"],
            attempt=f"attempt {seen['attempt']} of {seen['max_attempts']}{token}",
        )
