"""`tenure kinds`: what is installed here, and pausing it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.output import Json, print_json, print_table, say

app = typer.Typer(no_args_is_help=True, help="Kinds of tasks: list, pause, resume.", rich_markup_mode="rich")
Name = Annotated[str, typer.Argument(metavar="KIND", help="The kind.")]
Reason = Annotated[str | None, typer.Option(help="Why; shown by list and why.")]


@app.command("list")
def list_kinds(as_json: Json = False) -> None:
    """List kinds installed here or with live tasks, their policies, pauses and backlog."""
    from tenure import registry, settings
    from tenure.cli.frame import database
    from tenure.store import backlog, pauses

    specs = {spec.name: spec for spec in registry.load(settings.load().kind_packages).specs}
    with database() as connection:
        counted = backlog.counts(connection)
        paused = pauses.listing(connection, "kind")
    names = sorted({*specs, *paused, *(row["kind"] for row in counted)})
    rows = [_row(name, specs.get(name), paused.get(name), counted) for name in names]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Kind", "Queue", "#Attempts", "On shutdown", "On lost", "#Queued", "#Scheduled", "#Active", "Notes"),
        ((r["kind"], r["queue"], r["max_attempts"], r["on_shutdown"], r["on_lost"], r["queued"], r["scheduled"],
          r["active"], _notes(r)) for r in rows),
        empty="no kinds are installed here: see TENURE_KINDS",
        gives_way={"On shutdown": 0, "On lost": 0, "Attempts": 0, "Scheduled": 0, "Queue": 8},
    )  # fmt: skip


def _row(name: str, spec: Any, pause: Any, counted: list[dict[str, Any]]) -> dict[str, Any]:
    policy = ("queue", "priority", "max_attempts", "run_limit", "on_shutdown", "on_lost", "limit", "scope",
              "scope_limit", "exclusive", "active_limit", "internal")  # fmt: skip
    backlog = {
        state: sum(row["n"] for row in counted if row["kind"] == name and row["state"] == state)
        for state in ("queued", "scheduled", "active")
    }
    return {
        "kind": name,
        "installed": spec is not None,
        **{field: getattr(spec, field, None) for field in policy},
        "paused": pause,
        **backlog,
    }


def _notes(row: dict[str, Any]) -> str:
    paused = row["paused"]
    return ", ".join(
        word
        for word in (
            "" if row["installed"] else "not installed here",
            f"internal: use {row['internal']}" if row["internal"] else "",
            f"paused by {paused['paused_by']}{': ' + paused['reason'] if paused['reason'] else ''}" if paused else "",
        )
        if word
    )


@app.command()
def pause(name: Name, reason: Reason = None, as_json: Json = False) -> None:
    """Pause a kind: nothing more of it is claimed, what runs goes on."""
    change("kind", name, paused=True, reason=reason, as_json=as_json)


@app.command()
def resume(name: Name, as_json: Json = False) -> None:
    """Resume a paused kind."""
    change("kind", name, paused=False, reason=None, as_json=as_json)


def change(what: Any, name: str, *, paused: bool, reason: str | None, as_json: bool) -> None:
    """Pause or resume a kind or queue and say what came of it; twice is harmless."""
    from tenure import pausing
    from tenure.cli.frame import database, initiator

    with database() as connection:
        if paused:
            changed = pausing.pause(connection, what, name, initiator=initiator(), reason=reason)
        else:
            changed = pausing.resume(connection, what, name)
    if as_json:
        print_json({what: name, "paused": paused, "changed": changed})
    else:
        say(f"{what} {name} {'' if changed else 'was already '}{'paused' if paused else 'resumed'}")
