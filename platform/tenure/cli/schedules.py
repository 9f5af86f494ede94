"""`tenure schedules`: list and show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, plain, print_fields, print_json, print_table
from tenure.model.durations import write_duration

if TYPE_CHECKING:
    from tenure.built_in import BeatService

app = typer.Typer(
    no_args_is_help=True, help="What runs by the clock: add, look at, run, hold back.", rich_markup_mode="rich"
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule (`tenure schedules list`).")]


def add_to(app: typer.Typer) -> None:
    app.command("list")(list_schedules)
    app.command("show")(show)


def list_schedules(as_json: Json = False) -> None:
    """List schedules: when each is due next, and how its last execution stands."""
    from tenure import schedules
    from tenure.built_in import SERVICES
    from tenure.cli.frame import database
    from tenure.store.execution_reads import last_states

    with database() as connection:
        last = last_states(connection)
        rows = [{**schedules.described(one), "last_state": last.get(one.id)} for one in schedules.listing(connection)]
    rows += [_service(one) for one in SERVICES]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Name", "Recurs", "Next due (UTC)", "Last", "Steps", "Notes"),
        ((r["name"], recurs(r), _next(r), r["last_state"], _steps(r), _notes(r)) for r in rows),
        empty="no schedules: `tenure schedules add NAME --every 90s --step KIND`",
        gives_way={"Steps": 12, "Last": 0},
    )


def _service(one: BeatService) -> dict[str, Any]:
    """A loop of beat itself, in the form of a schedule without steps: it makes no task and cannot be changed."""
    return {
        "id": None, "name": one.name, "description": one.description, "cron": None, "zone": None, "every": one.every,
        "manual": False, "steps": [], "enabled": True, "paused_by": None, "paused_reason": None, "built_in": True,
        "service": True, "origin": "", "missed": 0, "next_run_at": None, "last_state": None,
    }  # fmt: skip


def recurs(row: dict[str, Any]) -> str:
    """When a schedule recurs, in a few words."""
    if row["cron"] is not None:
        return f"{row['cron']} {row['zone']}"
    return "by hand" if row["every"] is None else f"every {write_duration(row['every'])}"


def _next(row: dict[str, Any]) -> str:
    return "" if row["paused_by"] or not row["enabled"] else plain(row["next_run_at"])


def _steps(row: dict[str, Any]) -> str:
    return " > ".join(" + ".join(step["kind"] for step in group) for group in row["steps"])


def _notes(row: dict[str, Any]) -> str:
    reason = f": {row['paused_reason']}" if row["paused_reason"] else ""
    said = (
        "" if row["enabled"] else "disabled",
        f"paused by {row['paused_by']}{reason}" if row["paused_by"] else "",
        "built in, every beat does it" if row.get("service") else "built in" if row["built_in"] else "",
        f"kept by {row['origin']}" if row["origin"] else "",
        f"{row['missed']} missed" if row["missed"] else "",
    )
    return ", ".join(word for word in said if word)


def show(
    name: Name,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="At most so many occurrences, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show one schedule: what it does, when it is due, and its newest occurrences with their tasks."""
    from tenure import schedules
    from tenure.cli.frame import database

    with database() as connection:
        found = schedules.show(connection, name, occurrences=limit)
    if as_json:
        print_json(found)
        return
    _fields(found)
    print()
    print_table(
        ("Due (UTC)", "Execution", "State", "Tasks", "Reason"),
        ((o["due_at"], o["execution_id"], o["state"], progress(o), o["reason"]) for o in found["occurrences"]),
        empty="nothing has run yet",
        gives_way={"Tasks": 12},
    )


def _fields(found: dict[str, Any]) -> None:
    misfire = f"{found['misfire']}, at most {found['at_most']}" if found["misfire"] == "all" else found["misfire"]
    print_fields(
        {
            "name": found["name"],
            "about": found["description"],
            "recurs": recurs(found),
            "next due": found["upcoming"],
            "steps": _steps(found),
            "overlap": found["overlap"],
            "misfire": misfire,
            "on failure": found["on_failure"],
            "notes": _notes(found),
            "revision": f"{found['revision']} by {found['updated_by']}",
        }
    )


def progress(occurrence: dict[str, Any]) -> str:
    """How the tasks of an execution stand: groups in their order."""
    groups: dict[int, list[str]] = {}
    for task in occurrence["tasks"]:
        groups.setdefault(task["group"], []).append(f"{task['kind']} {task['state']}")
    return " > ".join(" + ".join(groups[index]) for index in sorted(groups))
