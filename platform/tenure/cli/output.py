"""How answers look: one JSON document, or text and tables for people. Data never moves the terminal's cursor."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def _encoded(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_json(document: object, *, indent: int | None = 2) -> None:
    """One JSON document on stdout. Times are ISO in UTC, durations seconds, ids text. `indent=None`: on one line."""
    print(json.dumps(document, ensure_ascii=False, indent=indent, default=_encoded), flush=True)


def say(text: str) -> None:
    """One line on stdout, at once."""
    print(plain(text), flush=True)


def note(text: str) -> None:
    """One line on stderr: for people, also where stdout is JSON."""
    print(f"tenure: {plain(text)}", file=sys.stderr, flush=True)


def plain(value: object) -> str:
    """A value as one line of text without control characters: data must not steer the terminal."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value)
    text = f"{value:.1f}" if isinstance(value, float | Decimal) else str(value)
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def console(*, stderr: bool = False) -> Console:
    """A console that cuts nothing off when its output goes into a pipe."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 1000
    return Quiet(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    gives_way: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Rows under headings; `empty` is the sentence when there are none. A heading that starts with `#` is a number's.

    On a terminal that is too narrow the columns of `gives_way` are cut to the width named there (0: not cut), then left
    out, in that order. Elsewhere everything is printed whole.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    from tenure.cli.tables import fitted

    cells = [[plain(value) for value in row] for row in rows]
    if not cells:
        say(empty)
        return
    names = [name.removeprefix("#") for name in columns]
    widths = {name: max(cell_len(name), *(cell_len(row[at]) for row in cells)) for at, name in enumerate(names)}
    target = console()
    shown = fitted(widths, gives_way, target.width if sys.stdout.isatty() else None)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, heading in zip(names, columns, strict=True):
        if name in shown:
            justify: Literal["left", "right"] = "right" if heading.startswith("#") else "left"
            table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=shown[name])
    for row in cells:
        table.add_row(*(Text(cell) for name, cell in zip(names, row, strict=True) if name in shown))
    target.width = max(target.width, sum(shown.values()) + 2 * len(shown))  # the console would cut what is wider
    target.print(table)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Name and value, one per line; what is empty is left out."""
    shown = {name: plain(value) for name, value in fields.items() if value not in (None, "", {}, [])}
    width = max((len(name) for name in shown), default=0)
    for name, text in shown.items():
        print(f"{name:<{width}}  {text}")


def ago(seconds: float | Decimal | None) -> str:
    """A length of time in its largest fitting unit."""
    if seconds is None:
        return ""
    value = float(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if value >= 2 * size:
            return f"{value / size:.0f}{unit}"
    return f"{value:.1f}s" if value < 10 else f"{value:.0f}s"
