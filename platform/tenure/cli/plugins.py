"""Commands of domains and deployables: entry points of the group `tenure.commands`, each a typer app or a function.

Loaded only when named, or for `--help`. One that cannot be loaded costs one line on stderr, never the command line.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from tenure.model.errors import TenureError, shortened

GROUP = "tenure.commands"


class WithPlugins(TyperGroup):
    """The root command: its own commands first, then those of plug-ins under their entry names."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        own = super().list_commands(ctx)
        # Broken ones are left out of the listing, which asks for each command again.
        return own + [point.name for point in _points() if point.name not in own and _load(point) is not None]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for point in _points():
            if point.name == cmd_name:
                if plugin := _load(point):
                    return plugin
                raise typer.Exit(TenureError.exit_code)  # told on stderr already
        return None


def _points() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def _load(point: EntryPoint) -> Any | None:
    """The click command of a plug-in, or None after a line that says which one is broken."""
    try:
        plugin = point.load()
        if isinstance(plugin, typer.Typer):
            command: Any = typer.main.get_group(plugin)
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
            alone.command(point.name)(plugin)
            command = typer.main.get_command(alone)
    except Exception as error:
        reason = f"{type(error).__name__}: {shortened(error, 120)}"
        print(f"tenure: the command {point.name} ({point.value}) cannot be loaded: {reason}", file=sys.stderr)
        return None
    command.name = point.name
    return command
