"""`tenure settings`: what may change while processes run. What a process starts with is TENURE_* in its environment."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.output import Json, print_json, print_table, say
from tenure.model.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Run-time settings: list, set.", rich_markup_mode="rich")


@app.command("list")
def list_settings(as_json: Json = False) -> None:
    """List run-time settings with value, default, unit and reason."""
    from tenure.cli.frame import database
    from tenure.store import settings

    with database() as connection:
        rows = settings.listing(connection)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Name", "#Value", "#Default", "Unit", "Set by", "Reason"),
        (
            (r["name"], f"{r['value']:.15g}", f"{r['default']:.15g}", r["unit"], r["updated_by"], r["reason"])
            for r in rows
        ),
        empty="",
        gives_way={"Set by": 8, "Default": 0, "Unit": 0},
    )


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_setting(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The setting, as list prints it.")],
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="Its new value, in the setting's unit.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Go back to the default.")] = False,
    as_json: Json = False,
) -> None:
    """Change a run-time setting; whoever reads it sees it at its next read."""
    from tenure.cli.frame import database, initiator
    from tenure.store import settings

    if (value is None) != default:
        raise UsageError("give a value, or --default")
    setting = settings.named(name)
    new = None if value is None else setting.parse(value)
    with database() as connection:
        settings.store(connection, setting, new, by=str(initiator()))
        now = settings.value(connection, setting)
    if as_json:
        print_json({"name": name, "value": now, "unit": setting.unit})
    else:
        say(f"{name} = {now:.15g} {setting.unit}")
