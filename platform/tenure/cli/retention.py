"""`tenure retention`: what is kept for how long, the last run, and a run or dry run now."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.output import Json, print_json, print_table, say

app = typer.Typer(
    no_args_is_help=True, help="Deleting what is old: show, run. Ages: `tenure settings set retention.…`.",
    rich_markup_mode="rich",
)  # fmt: skip


@app.command("show")
def show(as_json: Json = False) -> None:
    """Show the ages and what the last run came to."""
    from tenure import client
    from tenure.cli.frame import database
    from tenure.retention import RETENTION
    from tenure.store import settings

    with database() as connection:
        ages = [row for row in settings.listing(connection) if row["name"].startswith("retention.")]
        tasks = client.tasks(connection, kind=RETENTION.name, limit=20)
        last = next((client.get(connection, task["id"]) for task in tasks if task["finished_at"]), None)
    if as_json:
        fields = ("name", "value", "default", "unit", "updated_at", "updated_by", "reason")
        print_json({"ages": [{field: row[field] for field in fields} for row in ages], "last": last and _last(last)})
        return
    print_table(
        ("Setting", "#Value", "Unit", "What for"),
        ((row["name"], f"{row['value']:.15g}", row["unit"], row["reason"]) for row in ages),
        empty="",
    )
    if last is None:
        say("no run has ended yet: `tenure retention run`, or let its schedule run it")
    else:
        said = last["summary"] or (last["error"] or {}).get("message") or ""
        say(f"last run {last['timestamps']['finished_at']:%Y-%m-%d %H:%M:%S}: {last['state']}: {said}")


def _last(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": task["id"], "state": task["state"], "finished_at": task["timestamps"]["finished_at"],
        "summary": task["summary"], "result": task["result"],
    }  # fmt: skip


@app.command("run")
def run(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and delete nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end; exit 1 unless it succeeded.")] = False,
    as_json: Json = False,
) -> None:
    """Start a run now and print its task's id; --wait says what it came to."""
    from tenure.retention import RETENTION, Retention

    start(RETENTION, Retention(dry_run=dry_run), wait=wait, as_json=as_json)


def start(kind: Any, params: Any, *, wait: bool, as_json: bool) -> None:
    """Submit a retention; also for those of domains."""
    from tenure import client
    from tenure.cli.frame import connected, database, database_url, initiator

    with database() as connection:
        made = client.submit(connection, kind, params, initiator=initiator())
    if not as_json:
        say(str(made.id))
    if not wait:
        if as_json:
            print_json({"id": made.id, "created": made.created})
        return
    from tenure.cli.follow import to_the_end

    code = to_the_end(made.id, as_json=as_json)
    if not as_json:
        with connected(database_url()) as connection:
            if summary := client.get(connection, made.id)["summary"]:
                say(summary)
    raise typer.Exit(code)
