"""Entry point of `tenure`: the commands, the plug-ins, and the one place where an error becomes a line and a code.

Everything heavy is imported inside commands: `tenure --help` must answer at once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from tenure.cli import (
    activities,
    applying,
    doctor,
    executions,
    health,
    holding,
    kinds,
    limits,
    migrating,
    processes,
    queues,
    retention,
    retrying,
    schedules,
    scheduling,
    servers,
    settings,
    submitting,
    tasks,
    up,
    waiting,
    workers,
)
from tenure.cli.plugins import WithPlugins
from tenure.cli.values import readable_arguments

app = typer.Typer(
    cls=WithPlugins, name="tenure", no_args_is_help=True, rich_markup_mode="rich", add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@dataclass
class Invocation:
    """What one call of `tenure` was told before its command."""

    debug: bool = False


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tenure {version('tenure')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Durable tasks: PostgreSQL is the truth, Celery is the engine.

    Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 timed out, 130 stopped by Ctrl-C.
    """
    if isinstance(context.obj, Invocation):
        context.obj.debug = debug


for module in (up, servers, migrating, doctor, health, processes):
    module.add_to(app)
for module in (submitting, tasks, waiting, retrying):
    module.add_to(tasks.app)
for module in (scheduling, applying, schedules, executions, holding):
    module.add_to(schedules.app)
app.add_typer(tasks.app, name="tasks")
app.add_typer(schedules.app, name="schedules")
app.add_typer(kinds.app, name="kinds")
app.add_typer(queues.app, name="queues")
app.add_typer(limits.app, name="limits")
app.add_typer(workers.app, name="workers")
app.add_typer(activities.app, name="activities")
app.add_typer(settings.app, name="settings")
app.add_typer(retention.app, name="retention")


def main() -> None:
    """Run the command of sys.argv and leave with its exit code; never a traceback without --debug."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = _quiet()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and answer its exit code. Raises KeyboardInterrupt and BrokenPipeError, no other exception."""
    from tenure.cli.failures import explain

    called = Invocation()
    try:
        command = typer.main.get_command(app)
        answer = command.main(readable_arguments(arguments), prog_name="tenure", standalone_mode=False, obj=called)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        line, code = explain(error)
        if called.debug:
            import traceback

            traceback.print_exc()
        print(line, file=sys.stderr)
        return code
    return answer if isinstance(answer, int) else 0


def _quiet() -> int:
    # The interpreter flushes stdout once more at exit: give it somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1  # as typer does for a pipe that broke while it was written to


if __name__ == "__main__":
    main()
