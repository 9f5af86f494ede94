"""`tenure records rebuild`, and how every command that starts a reindex tells of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.output import Json, note, print_json, say
from tenure.model.records import Submitted
from tenure_records.kinds import PAGE_ROWS

Wait = Annotated[bool, typer.Option("--wait", help="Follow the reindex to its end; exit 1 unless it succeeded.")]


def add_to(app: typer.Typer) -> None:
    app.command("rebuild")(rebuild)


def rebuild(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class.")],
    page_rows: Annotated[int, typer.Option(min=1, max=10_000, help="Objects a page at most.")] = PAGE_ROWS,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Evaluate the computed fields of every object again, and print the task's id."""
    from tenure.cli.frame import database, initiator
    from tenure_records import rebuild as start

    with database() as connection:
        made = start(connection, name, initiator=initiator(), page_rows=page_rows)
    if not made.created:
        note("a rebuild of these definitions is under way already: this is its task")
    follow(made, {"created": made.created}, wait=wait, as_json=as_json)


def follow(task: Submitted | None, document: dict[str, Any], *, wait: bool, as_json: bool) -> None:
    """Print the id of the task at once, or the document with it; `wait` follows it and sets the exit code."""
    if task is not None and not as_json:
        say(str(task.id))
    if task is not None and wait:
        from tenure.cli.follow import to_the_end

        raise typer.Exit(to_the_end(task.id, as_json=as_json))
    if as_json:
        print_json({"task_id": None if task is None else task.id, **document})
