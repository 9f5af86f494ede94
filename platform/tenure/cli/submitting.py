"""`tenure tasks submit`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from tenure.cli import values
from tenure.cli.output import Json, note, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("submit")(submit)


def submit(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="A kind installed here (`tenure kinds list`).")],
    params: Annotated[
        Any,
        typer.Option(parser=values.params, metavar="JSON", help="A JSON object; @FILE reads a file, - reads stdin."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Idempotency key, 1 to 255 bytes: the same request again answers the same task."
        ),
    ] = None,
    deadline: Annotated[
        Any,
        typer.Option(
            parser=values.deadline,
            metavar="TIME",
            help="When it must have ended: 60s, 5m, 2h from now, or an ISO time with zone.",
        ),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(parser=values.moment, metavar="ISO", help="Not before this time, e.g. 2030-01-31T12:00:00Z."),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=-32768, max=32767, help="Larger runs first. Default: the kind's.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it touches outside, for limits. Default: the kind's.")
    ] = None,
    exclusive: Annotated[
        bool | None, typer.Option("--exclusive/--shared", help="Nothing beside it in its scope. Default: the kind's.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label; may be repeated.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end; exit 1 unless it succeeded.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a task and print its id."""
    from tenure import client
    from tenure.cli.frame import database, initiator

    labels = values.labels(label or ())
    with database() as connection:
        made = client.submit(
            connection, kind, params, initiator=initiator(), key=key, at=at, deadline=_limit(deadline),
            priority=priority, scope=scope,
            exclusive=exclusive, labels=labels,
        )  # fmt: skip
    if not as_json:
        say(str(made.id))
    if not made.created:
        note("the key already belongs to this task: nothing new was submitted")
    if wait:
        from tenure.cli.follow import to_the_end

        raise typer.Exit(to_the_end(made.id, as_json=as_json))
    if as_json:
        print_json({"id": made.id, "created": made.created})


def _limit(deadline: Any) -> datetime | timedelta | None:
    assert deadline is None or isinstance(deadline, datetime | timedelta)
    return deadline
