"""Commands of domains and deployables: entry points of the group `tenure.commands`, each a typer app or a function.

A plug-in is imported only when its command is named: `tenure --help` lists it unseen, and one that cannot be imported
costs one line on stderr, never the command line.
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
    """The root command: its own commands first, then those of plug-ins under their entry names. Ours win."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return own + sorted(entry_points(group=GROUP).names - set(own))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Ours, or for a plug-in what the listing needs of it."""
        point = self._plugin(cmd_name)
        return super().get_command(ctx, cmd_name) if point is None else _listed(point)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is run: here a plug-in is imported."""
        point = self._plugin(args[0])
        return super().resolve_command(ctx, args) if point is None else (args[0], _load(point), args[1:])

    def _plugin(self, name: str) -> EntryPoint | None:
        if name in self.commands:
            return None
        return next(iter(entry_points(group=GROUP, name=name)), None)


def _listed(point: EntryPoint) -> Any:
    package = point.module.partition(".")[0]
    listed = typer.Typer(add_completion=False, rich_markup_mode="rich")
    listed.command(point.name, help=f"Of {package}: see `tenure {point.name} --help`.")(lambda: None)
    return typer.main.get_command(listed)


def _load(point: EntryPoint) -> Any:
    """The command of a plug-in. Leaves with exit code 1 after a line that says why it cannot be imported."""
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
        raise typer.Exit(TenureError.exit_code) from None
    command.name = point.name
    return command
