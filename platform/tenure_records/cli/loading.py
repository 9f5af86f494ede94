"""`tenure records load`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.output import Json, note, print_json, say
from tenure_records.cli.files import bytes_bar, opened

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tenure_records import Loaded


class OnError(StrEnum):
    SKIP = "skip"
    ABORT = "abort"


def add_to(app: typer.Typer) -> None:
    app.command("load")(load)


def load(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class; made when it is missing.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One JSON object a line, UTF-8; - reads stdin.")],
    key: Annotated[str, typer.Option(metavar="FIELD", help="The member that is the object's key.")] = "key",
    on_error: Annotated[
        OnError, typer.Option(help="A bad line: skip loads the rest, abort loads nothing.")
    ] = OnError.ABORT,
    as_json: Json = False,
) -> None:
    """Load objects; equal ones stay as they are. Every bad line is named on stderr; exit 1 when there was one."""
    from tenure.cli.frame import database
    from tenure_records import load as load_lines

    with opened(file) as lines, database() as connection:

        @contextmanager
        def begin() -> Iterator[Connection]:
            with connection.begin():
                yield connection

        with bytes_bar(lines) as progress:
            done = load_lines(begin, name, lines, key=key, on_error=on_error.value, create=True, progress=progress)
    for error in done.errors:
        note(f"line {error.line}: {error.reason}")
    if done.refused > len(done.errors):
        note(f"… and {done.refused - len(done.errors)} more bad lines")
    _report(name, done, as_json=as_json)
    raise typer.Exit(1 if done.refused else 0)


def _report(name: str, done: Loaded, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "class": name, "lines": done.lines, "created": done.put.created, "changed": done.put.changed,
                "unchanged": done.put.unchanged, "invalid": done.put.invalid, "refused": done.refused, "rolled_back": done.rolled_back,
                "errors": [{"line": error.line, "reason": error.reason} for error in done.errors],
            }
        )  # fmt: skip
    elif done.rolled_back:
        say(f"nothing loaded: {done.refused} of {done.lines} lines are bad (--on-error skip loads the others)")
    else:
        put = done.put
        say(f"{put.created} created, {put.changed} changed, {put.unchanged} unchanged, {done.refused} refused")
        if put.invalid:
            say(f"{put.invalid} of them do not fit the advisory schema: `tenure records schema show {name}`")
