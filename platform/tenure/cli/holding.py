"""`tenure schedules pause`, `resume`, `enable`, `disable` and `remove`: whether a schedule fires at all."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.output import Json, print_json, say
from tenure.cli.schedules import Name


def add_to(app: typer.Typer) -> None:
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("enable")(enable)
    app.command("disable")(disable)
    app.command("remove")(remove)


def pause(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why; shown by list.")] = None,
    as_json: Json = False,
) -> None:
    """Hold a schedule back: it starts nothing by itself until it is resumed; what runs goes on."""
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    with database() as connection:
        changed = schedules.pause(connection, name, initiator=initiator(), reason=reason)
    _said(name, "paused", changed, as_json)


def resume(name: Name, as_json: Json = False) -> None:
    """Let a paused schedule fire again; what came meanwhile was not missed."""
    from tenure import schedules
    from tenure.cli.frame import database

    with database() as connection:
        changed = schedules.resume(connection, name)
    _said(name, "resumed", changed, as_json)


def _said(name: str, done: str, changed: bool, as_json: bool) -> None:
    if as_json:
        print_json({"schedule": name, "paused": done == "paused", "changed": changed})
    else:
        say(f"schedule {name} {'' if changed else 'was already '}{done}")


def enable(name: Name, as_json: Json = False) -> None:
    """Let a disabled schedule fire; what came meanwhile was not missed."""
    _enable(name, True, as_json)


def disable(name: Name, as_json: Json = False) -> None:
    """Let a schedule fire only by hand, for good; `pause` is for a while."""
    _enable(name, False, as_json)


def _enable(name: str, enabled: bool, as_json: bool) -> None:
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    with database() as connection:
        changed = schedules.enable(connection, name, enabled, initiator=initiator())
    if as_json:
        print_json({"schedule": name, "enabled": enabled, "changed": changed})
    else:
        say(f"schedule {name} {'' if changed else 'was already '}{'enabled' if enabled else 'disabled'}")


def remove(name: Name, as_json: Json = False) -> None:
    """Remove a schedule; what runs goes on, what ran stays known. A built-in one is refused."""
    from tenure import schedules
    from tenure.cli.frame import database

    with database() as connection:
        schedules.remove(connection, name)
    if as_json:
        print_json({"schedule": name, "removed": True})
    else:
        say(f"schedule {name} removed")
