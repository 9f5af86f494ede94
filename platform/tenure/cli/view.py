"""How progress looks: on a terminal a line that says how it stands and a bar per phase; elsewhere a line per change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tenure.cli.measured import Bar, counted, length, paced, time_left

_MARKS = {
    "pending": ("·", "dim"), "running": ("▸", "bold cyan"), "completed": ("✓", "green"), "failed": ("✗", "red"),
    "skipped": ("-", "dim"), "stopped": ("■", "yellow"), "": (" ", ""),
}  # fmt: skip
_DIM = {"pending": "dim", "skipped": "dim"}
_ROOM = 4  # lines of the terminal that are not for bars
_NAME, _REST = 12, 22  # characters that a name and what comes last keep
_BAR = (8, 30)  # characters of a bar: with less there is none
TELLING = 10.0  # s between lines about a phase that only goes on


class View:
    """On a terminal: drawn again at each snapshot. A context manager."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=5, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, title: str, bars: Sequence[Bar]) -> None:
        self._live.update(Screen(title, bars))


class Screen:
    """One snapshot, fitted to the console it is drawn on."""

    def __init__(self, title: str, bars: Sequence[Bar]) -> None:
        self._title = title
        self._bars = bars

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = visible(self._bars, max(1, (options.height or console.height) - _ROOM))
        yield Group(Text(self._title, no_wrap=True, overflow="ellipsis"), _table(shown, options.max_width))
        if hidden := len(self._bars) - len(shown):
            yield Text(f"  and {hidden} more phases", style="dim")


def visible(bars: Sequence[Bar], room: int) -> Sequence[Bar]:
    """As many as there is room for, around the last one that runs."""
    if len(bars) <= room:
        return bars
    at = max((index for index, bar in enumerate(bars) if bar.status == "running"), default=0)
    first = min(max(0, at - room // 2), len(bars) - room)
    return bars[first : first + room]


def _table(bars: Sequence[Bar], width: int) -> Table:
    names = [Text("  " * bar.depth + bar.name, style=_DIM.get(bar.status, "")) for bar in bars]
    counts, paces = [counted(bar) for bar in bars], [paced(bar) for bar in bars]
    widths = _widths(
        width, max(map(cell_len, (name.plain for name in names)), default=0), _longest(counts), _longest(paces)
    )
    table = Table.grid(padding=(0, 1, 0, 0))
    for at, column in enumerate(widths):
        justify: Literal["left", "right"] = "right" if at in (3, 4) else "left"
        table.add_column(width=column, justify=justify, no_wrap=True, overflow="ellipsis")
    hosts = {bar.path.rpartition("/")[0] for bar in bars}
    for bar, name, count, pace in zip(bars, names, counts, paces, strict=True):
        mark, style = _MARKS[bar.status]
        drawn = Text("") if bar.path in hosts or not widths[2] else _drawn(bar)
        table.add_row(
            Text(mark, style=style), name, drawn, Text(count), Text(pace, style="cyan"), Text(_rest(bar), style="dim")
        )
    return table


def _longest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def _widths(width: int, name: int, count: int, pace: int) -> tuple[int, ...]:
    """Of mark, name, bar, count, pace and the rest. Figures are never cut; the bar gives way, then the name."""
    room = width - 1 - count - pace - 5  # a mark, and a blank after each but the last
    name = min(name, max(_NAME, width // 3))
    bar = min(_BAR[1], room - name - _REST)
    bar = bar if bar >= _BAR[0] else 0
    name = min(name, max(_NAME, room - bar - _REST))
    return 1, name, bar, count, pace, max(1, room - name - bar)


def _drawn(bar: Bar) -> RenderableType:
    if bar.total is None:
        return ProgressBar(pulse=True) if bar.status == "running" else Text("")
    return ProgressBar(total=bar.total, completed=bar.done or 0, finished_style=_MARKS[bar.status][1] or "green")


def _rest(bar: Bar) -> str:
    """What comes after the figures: time left or taken, how it ended, what its body says."""
    took = "" if bar.seconds is None else length(bar.seconds)
    if bar.status == "running":
        said = [took, time_left(bar)]
    else:
        said = [took, "" if bar.status in ("completed", "pending", "") else bar.status]
    return "  ".join(part for part in (*said, bar.message or "") if part)


class Lines:
    """Where nothing can be drawn: a line for each change, and now and then one of a phase that goes on."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._title = ""
        self._known: dict[str, str] = {}
        self._told_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing is held."""

    def show(self, title: str, bars: Sequence[Bar]) -> None:
        if title != self._title:
            self._title = title
            self._write(title)
        new = [bar.path for bar in bars if bar.status and bar.path not in self._known]
        if len(new) > 1:
            self._write(f"phases: {', '.join(new)}")
        for bar in bars:
            if bar.status not in ("pending", "", self._known.get(bar.path)):
                self._write(f"{bar.path}: {_sentence(bar)}")
                self._told_at = time.monotonic()
        self._known = {bar.path: bar.status for bar in bars}
        if time.monotonic() - self._told_at >= TELLING:
            self._told_at = time.monotonic()
            for bar in bars:
                if bar.status == "running" and counted(bar):
                    self._write(f"{bar.path}: {_sentence(bar)}")


def _sentence(bar: Bar) -> str:
    if bar.status == "running":
        parts = [counted(bar), paced(bar), time_left(bar), bar.message or ""]
        return ", ".join(part for part in parts if part) or "running"
    took = "" if bar.seconds is None else f" after {length(bar.seconds)}"
    return f"{bar.status}{took}" + (f", {counted(bar)}" if counted(bar) else "")
