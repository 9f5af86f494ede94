"""`tenure schedules run`, `backfill` and `cancel`: executions by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from tenure.cli import values
from tenure.cli.output import Json, note, print_json, say
from tenure.cli.schedules import Name, progress

PACE = 0.2


def add_to(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("backfill")(backfill)
    app.command("cancel")(cancel)


def run(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end; exit 1 unless it succeeded.")] = False,
    as_json: Json = False,
) -> None:
    """Start an execution now and print its id; also of a disabled or paused schedule."""
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    with database() as connection:
        execution_id = schedules.run_now(connection, name, initiator=initiator())
    if not wait:
        if as_json:
            print_json({"execution_id": execution_id})
        else:
            say(str(execution_id))
        return
    note(str(execution_id))
    last = _followed(execution_id)
    if as_json:
        print_json(last)
    else:
        say(f"{last['state']}{': ' + last['reason'] if last['reason'] else ''}")
    raise typer.Exit(0 if last["state"] == "succeeded" else 1)


def _followed(execution_id: UUID) -> dict[str, Any]:
    """Say each change on stderr until it has ended; how it ended."""
    import signal

    from tenure import schedules
    from tenure.cli.frame import connected, database_url
    from tenure.runtime.shutdown import Shutdown

    stop = Shutdown()
    stop.listen_for_signals(signal.SIGINT)
    watcher, before = stop.watcher(), ""
    with connected(database_url()) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        while True:
            seen = schedules.execution(connection, execution_id)
            if (now := progress(seen)) != before:
                note(now)
            before = now
            if seen["finished_at"] is not None:
                return seen
            if not watcher.sleep(PACE):
                raise KeyboardInterrupt


def backfill(
    name: Name,
    start: Annotated[datetime, typer.Argument(parser=values.moment, metavar="FROM", help="ISO time with zone.")],
    end: Annotated[
        datetime, typer.Argument(parser=values.moment, metavar="TO", help="ISO time with zone; not included.")
    ],
    as_json: Json = False,
) -> None:
    """Run the occurrences of a past range that have not run, one after another unless overlap is allowed."""
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    with database() as connection:
        made = schedules.backfill(connection, name, start, end, initiator=initiator())
    if as_json:
        print_json({"executions": made})
    else:
        say(f"{len(made)} occurrences of schedule {name} to run" if made else "nothing to run: all have run")


def cancel(
    execution_id: Annotated[
        UUID, typer.Argument(parser=values.an_id, metavar="EXECUTION", help="Its id, as run and show print it.")
    ],
    reason: Annotated[str | None, typer.Option(help="Why; kept with the request.")] = None,
    as_json: Json = False,
) -> None:
    """Ask an execution and all its tasks to stop; twice is harmless."""
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    with database() as connection:
        state = schedules.cancel_execution(connection, execution_id, initiator=initiator(), reason=reason)
    if as_json:
        print_json({"execution_id": execution_id, "state": state})
    else:
        say(str(state))
