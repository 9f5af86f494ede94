"""`tenure activities`: who set what in motion, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from tenure.cli import values
from tenure.cli.output import Json, print_json, print_table
from tenure.model.errors import Refused

app = typer.Typer(
    no_args_is_help=True, help="Activities: who set what in motion, and what came of it.", rich_markup_mode="rich"
)


class Status(StrEnum):
    """What an activity can be."""

    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    COMPLETE_WITH_WARNING = "complete_with_warning"
    COMPLETE_WITH_ERROR = "complete_with_error"
    FAILED = "failed"
    CANCELLED = "cancelled"


@app.command("list")
def list_activities(
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    initiator: Annotated[
        str | None, typer.Option(metavar="WHO", help="Only what they set in motion: a name, an id or TYPE:NAME.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="WHAT", help="Only for this target: a name, an id or TYPE:NAME.")
    ] = None,
    since: Annotated[
        Any, typer.Option(parser=values.since, metavar="TIME", help="Only since then: 90s, 5m, 2h, 1d, or an ISO time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[
        UUID | None, typer.Option(parser=values.an_id, metavar="ID", help="Go on below this one of an earlier list.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List activities, newest first."""
    from tenure.cli.activity_page import target as target_of
    from tenure.cli.frame import database
    from tenure.store import activity_reads

    with database() as connection:
        rows = activity_reads.listing(
            connection, status=status and status.value, initiator=initiator, target=target, since=since, before=before,
            limit=limit,
        )  # fmt: skip
    if as_json:
        print_json(rows)
        return
    print_table(
        ("ID", "Status", "Initiator", "Target", "Created", "Ended"),
        ((r["id"], r["status"], r["initiator_name"], target_of(r), r["created_at"], r["ended_at"]) for r in rows),
        empty="no such activities",
        gives_way={"Ended": 0, "Created": 0, "Target": 8, "Initiator": 8},
    )


@app.command()
def show(
    activity_id: Annotated[UUID, typer.Argument(parser=values.an_id, metavar="ID", help="The id of the activity.")],
    items: Annotated[int, typer.Option(min=0, max=10_000, help="Show at most so many of its items.")] = 100,
    as_json: Json = False,
) -> None:
    """Show one activity: times, phases, what became of how many objects, errors first, and its children."""
    from tenure.cli.activity_page import page
    from tenure.cli.frame import database
    from tenure.store import activity_reads

    with database() as connection:
        found = activity_reads.one(connection, activity_id, items=items)
    if found is None:
        raise Refused(f"no activity {activity_id}")
    if as_json:
        print_json(found)
        return
    page(found)


@app.command()
def watch(
    activity_id: Annotated[UUID, typer.Argument(parser=values.an_id, metavar="ID", help="The id of the activity.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document per line at each change.")] = False,
) -> None:
    """Follow an activity to its end, with a bar for each phase: exit 0 when it is complete, with or without a warning."""
    from tenure.cli.follow import changes, watched
    from tenure.cli.followed import FollowedActivity

    activity = FollowedActivity(activity_id)
    raise typer.Exit(changes(activity) if as_json else watched(activity))
