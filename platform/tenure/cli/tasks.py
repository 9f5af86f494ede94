"""`tenure tasks`: list, show, cancel, why."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from tenure.cli import values
from tenure.cli.output import Json, ago, print_fields, print_json, print_table, say
from tenure.model.states import ACTIVE, State

app = typer.Typer(no_args_is_help=True, help="Submit, look at, stop and repeat tasks.", rich_markup_mode="rich")
TaskId = Annotated[UUID, typer.Argument(parser=values.an_id, metavar="ID", help="The id of the task.")]
_LISTED = (
    "id", "kind", "queue", "priority", "state", "outcome", "attempt", "max_attempts", "crashes", "labels", "scope",
    "submitter", "error_code", "error_message", "summary", "retry_of", "execution_id", "activity_id", "created_at", "available_at",
    "start_by", "deadline", "started_at", "finished_at",
)  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.command("list")(list_tasks)
    app.command("show")(show)
    app.command("cancel")(cancel)
    app.command("why")(why)


def list_tasks(
    state: Annotated[list[State] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only with this label; may be repeated.")
    ] = None,
    execution: Annotated[
        UUID | None, typer.Option(parser=values.an_id, metavar="ID", help="Only those of this execution of a schedule.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[
        UUID | None, typer.Option(parser=values.an_id, metavar="ID", help="Go on below this task of an earlier list.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List tasks, newest first."""
    from tenure import client
    from tenure.cli.frame import database

    wanted = values.labels(label or ())
    with database() as connection:
        rows = client.tasks(
            connection, kind=kind, states=state or (), labels=wanted, execution=execution, before=before, limit=limit
        )
    if as_json:
        print_json([{name: row[name] for name in _LISTED} for row in rows])
        return
    print_table(
        ("ID", "Kind", "State", "Created", "#Attempt", "Error"),
        ((r["id"], r["kind"], _state(r), r["created_at"], f"{r['attempt']}/{r['max_attempts']}", r["error_message"]) for r in rows),
        empty="no such tasks",
        gives_way={"Created": 0, "Attempt": 0, "Kind": 8},
    )  # fmt: skip


def _state(row: dict[str, Any]) -> str:
    return f"{row['state']} ({row['outcome']})" if row["outcome"] else str(row["state"])


def show(task_id: TaskId, as_json: Json = False) -> None:
    """Show one task whole: counters, lease, stops, result, history, attempts."""
    from tenure import client
    from tenure.cli.frame import database

    with database() as connection:
        task = client.get(connection, task_id)
    if as_json:
        print_json(task)
        return
    _fields(task)
    print()
    print_table(
        ("Time (UTC)", "Verb", "State", "#Token", "Note"),
        ((e["created_at"], e["verb"], e["state"], e["token"], e["note"]) for e in task["history"]),
        empty="no history",
        gives_way={"Token": 0, "Time (UTC)": 0},
    )
    if task["attempts"]:
        print()
        print_table(
            ("#Attempt", "#Token", "Started (UTC)", "Ended (UTC)", "How", "Forced", "Error"),
            ((a["attempt"], a["token"], a["created_at"], a["ended_at"], a["how"], a["forced"], a["error_message"])
             for a in task["attempts"]),
            empty="",
            gives_way={"Ended (UTC)": 0, "Token": 0, "Forced": 0, "Started (UTC)": 0},
        )  # fmt: skip


def _fields(task: dict[str, Any]) -> None:
    counters, lease, error, times = task["counters"], task["lease"], task["error"], task["timestamps"]
    print_fields(
        {
            "id": task["id"],
            "kind": task["kind"],
            "queue": f"{task['queue']}, priority {task['priority']}",
            "state": _state(task),
            "attempt": f"{task['attempt']} of {task['max_attempts']}" + (f", {task['crashes']} crashes" if task["crashes"] else ""),
            "initiator": f"{task['initiator']['type']} {task['initiator']['name']}",
            "key": task["key"],
            "labels": ", ".join(f"{name}={value}" for name, value in task["labels"].items()),
            "scope": task["scope"],
            "progress": ", ".join(f"{value} {name}" for name, value in counters.items() if value is not None),
            "lease": lease and f"token {lease['token']}, pid {lease['pid']}, good for {ago(lease['seconds_left'])}",
            "stop asked": ", ".join(f"by {s['asked_by']}" + (f": {s['reason']}" if s["reason"] else "") for s in task["stops"]),
            "error": error and f"{error['code']}: {error['message'] or ''}",
            "summary": task["summary"],
            "result": task["result"],
            "retry of": task["retry_of"],
            "execution": task["execution_id"] and f"{task['execution_id']}, group {task['group'] + 1}",
            **{name.removesuffix("_at").replace("_", " "): at for name, at in times.items()},
        }
    )  # fmt: skip


def cancel(
    task_id: TaskId,
    reason: Annotated[str | None, typer.Option(help="Why; kept with the request.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a task to stop; twice is harmless, one that has succeeded or failed is refused."""
    from tenure import client
    from tenure.cli.frame import database, initiator

    with database() as connection:
        state = client.cancel(connection, task_id, initiator=initiator(), reason=reason)
    if as_json:
        print_json({"id": task_id, "state": state, "stop_asked": state in ACTIVE})
    else:
        say(f"{state}: it was asked to stop" if state in ACTIVE else str(state))


def why(task_id: TaskId, as_json: Json = False) -> None:
    """Say why a task does not run, or who holds it."""
    from tenure import client
    from tenure.cli.frame import database

    with database() as connection:
        answer = client.why(connection, task_id)
    if as_json:
        print_json(answer)
        return
    say(f"{answer['state']}:")
    for reason in answer["reasons"]:
        say(f"  {reason['text']}")
