"""`tenure records load`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from tenure.cli.output import Json, note, print_json, say
from tenure.model.errors import UsageError, shortened

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

    with _opened(file) as lines, database() as connection:

        @contextmanager
        def begin() -> Iterator[Connection]:
            with connection.begin():
                yield connection

        with _progress(lines) as progress:
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


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        lines = file.open("rb")
        lines.peek(1)  # a directory opens, and fails only here
    except OSError as error:
        raise UsageError(f"cannot read {shortened(file)}: {error.strerror}") from None
    with lines:
        yield lines


@contextmanager
def _progress(lines: BinaryIO) -> Iterator[Callable[[int], None]]:
    """A bar over the bytes of the file, on a terminal; silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from tenure.cli.output import console

    size = os.fstat(lines.fileno()).st_size or None
    with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console(stderr=True)) as bar:
        task = bar.add_task("", total=size)
        yield lambda done: bar.update(task, completed=done)
