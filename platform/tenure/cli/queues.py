"""`tenure queues`: their backlog, who serves them, and pausing them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.kinds import Reason, change
from tenure.cli.output import Json, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Queues: list, pause, resume.", rich_markup_mode="rich")
Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]


@app.command("list")
def list_queues(as_json: Json = False) -> None:
    """List queues with their backlog, pauses and the live workers that serve them."""
    from tenure import registry, settings
    from tenure.cli.frame import database
    from tenure.store import backlog, pauses, worker_reads
    from tenure.store import settings as runtime_settings

    installed = registry.load(settings.load().kind_packages)
    with database() as connection:
        counted = backlog.counts(connection)
        paused = pauses.listing(connection, "queue")
        overdue = runtime_settings.value(connection, runtime_settings.WORKER_OVERDUE)
        live = [
            w
            for w in worker_reads.listing(connection, overdue=overdue)
            if w["status"] == "live" and w["role"] == "worker"
        ]
    names = sorted(
        {*installed.queues, *paused, *(r["queue"] for r in counted), *(q for w in live for q in w["queues"])}
    )
    rows = [
        {
            "queue": name,
            "kinds": [spec.name for spec in installed.specs if spec.queue == name],
            "paused": paused.get(name),
            **_backlog(name, counted),
            "workers": sum(name in w["queues"] for w in live),
        }
        for name in names
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Queue", "#Queued", "#Scheduled", "#Active", "Oldest (UTC)", "#Workers", "Paused by", "Kinds"),
        ((r["queue"], r["queued"], r["scheduled"], r["active"], r["oldest"], r["workers"],
          r["paused"] and r["paused"]["paused_by"], r["kinds"]) for r in rows),
        empty="no queues: no kind is installed here and nothing waits",
        gives_way={"Kinds": 8, "Oldest (UTC)": 0, "Scheduled": 0},
    )  # fmt: skip


def _backlog(name: str, counted: list[dict[str, Any]]) -> dict[str, Any]:
    mine = [row for row in counted if row["queue"] == name]
    return {
        **{state: sum(r["n"] for r in mine if r["state"] == state) for state in ("queued", "scheduled", "active")},
        "oldest": min((r["oldest"] for r in mine if r["state"] == "queued"), default=None),
    }


@app.command()
def pause(name: Name, reason: Reason = None, as_json: Json = False) -> None:
    """Pause a queue: nothing more of it is claimed, what runs goes on."""
    change("queue", name, paused=True, reason=reason, as_json=as_json)


@app.command()
def resume(name: Name, as_json: Json = False) -> None:
    """Resume a paused queue."""
    change("queue", name, paused=False, reason=None, as_json=as_json)
