"""`tenure workers`: the processes that run here."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.output import Json, ago, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Workers and beats, as the database saw them.", rich_markup_mode="rich")


@app.callback()
def workers() -> None:
    """Workers and beats, as the database saw them."""


@app.command("list")
def list_workers(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that ended or were last seen over an hour ago.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List workers: what they run, which queues they serve, when they were last seen."""
    from tenure.cli.frame import database
    from tenure.store import settings, worker_reads

    with database() as connection:
        overdue = settings.value(connection, settings.WORKER_OVERDUE)
        rows = worker_reads.listing(connection, overdue=overdue, everything=everything)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Node", "Role", "#Pid", "Status", "Seen", "#Busy", "Queues", "#Kinds", "Version", "Work"),
        ((r["node"], r["role"], r["pid"], r["status"], f"{ago(r['silent_seconds'])} ago", f"{r['leases']}/{r['slots']}",
          r["queues"], len(r["kinds"]), r["version"], r["work"]) for r in rows),
        empty="no workers: start one with `tenure worker`",
        gives_way={"Version": 0, "Kinds": 0, "Queues": 8, "Role": 0, "Pid": 0},
    )  # fmt: skip
