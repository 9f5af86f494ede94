"""`tenure tasks wait` and `tenure tasks watch`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import values
from tenure.cli.output import Json
from tenure.cli.tasks import TaskId


def add_to(app: typer.Typer) -> None:
    app.command("wait")(wait)
    app.command("watch")(watch)


def wait(
    task_id: TaskId,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=values.seconds, metavar="TIME", help="Give up after 90, 90s or 5m; 0 looks once. Default: never."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Wait for the end of a task: exit 0 when it succeeded, 1 when it ended otherwise, 3 after the timeout."""
    from tenure.cli.follow import until_ended

    raise typer.Exit(until_ended(task_id, timeout=timeout, as_json=as_json))


def watch(
    task_id: TaskId,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document per line at each change.")] = False,
) -> None:
    """Follow a task to its end, with a bar for each of its phases; the same exit codes as wait."""
    from tenure.cli.follow import changes, watched
    from tenure.cli.followed import FollowedTask

    task = FollowedTask(task_id)
    raise typer.Exit(changes(task) if as_json else watched(task))
