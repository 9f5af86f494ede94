"""`tenure records export` and `tenure records import`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from tenure.cli.output import Json, note, print_json, say
from tenure.model.errors import UsageError
from tenure_records.cli.files import bytes_bar, count_bar, opened, writing

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tenure_records.ndjson import Imported, Outcome

SHOWN = 100  # refused lines on the terminal; all are in --outcomes
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class.")]


def add_to(app: typer.Typer) -> None:
    app.command("export")(export_class)
    app.command("import")(import_class)


def export_class(
    name: Class,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to: there whole or not at all. - writes to stdout.")
    ] = Path("-"),
    computed: Annotated[bool, typer.Option("--computed", help="With the computed fields of each object.")] = False,
    as_json: Json = False,
) -> None:
    """Write a class as NDJSON: its fields and schema in the first line, then one object a line, all of one moment."""
    from tenure.cli.frame import database
    from tenure_records.classes import class_id, count_objects
    from tenure_records.ndjson import export
    from tenure_records.ndjson.files import whole

    to_stdout = str(output) == "-"
    if to_stdout and as_json:
        raise UsageError("--json says how it went on stdout: give --output FILE as well")
    with database() as connection:
        total = count_objects(connection, class_id(connection, name))
        connection.commit()
        file = nullcontext(sys.stdout.buffer) if to_stdout else whole(output)
        with file as out, count_bar(total) as bar:
            done = export(connection, name, out, computed=computed, progress=lambda seen: bar(seen.objects))
    if to_stdout:
        sys.stdout.buffer.flush()
        note(f"{done.objects} objects written")
    elif as_json:
        print_json({"class": name, "file": str(output), "objects": done.objects})
    else:
        say(f"{done.objects} objects written to {output}")


def import_class(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class; made when it is missing.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What export wrote; - reads stdin.")],
    outcomes: Annotated[Path | None, typer.Option(metavar="FILE", help="What became of each line, as NDJSON.")] = None,
    as_json: Json = False,
) -> None:
    """Read what export wrote. A bad line stops nothing and is named; exit 1 when there was one. Run again, it goes on."""
    from tenure.cli.frame import database, initiator
    from tenure_records.ndjson import import_lines

    refused: list[Outcome] = []
    with opened(file) as lines, _told(outcomes, lines, refused) as told, database() as connection:

        @contextmanager
        def begin() -> Iterator[Connection]:
            with connection.begin():
                yield connection

        with bytes_bar(lines) as progress:
            done = import_lines(begin, name, lines, initiator=initiator(), told=told, progress=progress)
    for one in refused:
        note(f"line {one.line}: {_said(one)}")
    if done.refused > len(refused):
        note(f"… and {done.refused - len(refused)} more refused lines" + ("" if outcomes else ": see --outcomes FILE"))
    _report(name, done, refused, as_json=as_json)
    raise typer.Exit(1 if done.refused else 0)


@contextmanager
def _told(path: Path | None, lines: BinaryIO, refused: list[Outcome]) -> Iterator[Callable[[Outcome], None]]:
    """Keeps the first refused ones, and writes all outcomes down as they come: what is written there has committed."""
    with nullcontext() if path is None else writing(path, lines) as write:

        def told(outcome: Outcome) -> None:
            if write is not None:
                write(f"{json.dumps(outcome.document(), ensure_ascii=False)}\n".encode())
            if outcome.outcome == "refused" and len(refused) < SHOWN:
                refused.append(outcome)

        yield told


def _said(one: Outcome) -> str:
    place = f"{one.field}: " if one.field else ""
    value = f"{one.value!r}: " if one.value else f"{one.key!r}: " if one.key else ""
    return f"{place}{value}{one.reason}"


def _report(name: str, done: Imported, refused: list[Outcome], *, as_json: bool) -> None:
    if as_json:
        errors: list[dict[str, Any]] = [one.document() for one in refused]
        print_json({"class": name, **vars(done), "errors": errors})
    else:
        changed = done.written - done.created
        say(f"{done.written} written ({done.created} of them new, {changed} changed), {done.unchanged} unchanged, "
            f"{done.refused} refused")  # fmt: skip
