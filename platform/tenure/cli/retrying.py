"""`tenure tasks retry`: ended tasks again, by id or by filter; each in its own transaction."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from tenure.cli import values
from tenure.cli.output import Json, note, print_json, say
from tenure.model.errors import TenureError, UsageError
from tenure.model.states import TERMINAL, State


def add_to(app: typer.Typer) -> None:
    app.command("retry")(retry)


def retry(
    ids: Annotated[
        list[UUID] | None, typer.Argument(parser=values.an_id, metavar="[ID]...", help="Ended tasks; or give a filter.")
    ] = None,
    state: Annotated[list[State] | None, typer.Option(help="Filter: this ended state; may be repeated.")] = None,
    kind: Annotated[str | None, typer.Option(help="Filter: this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Filter: at most so many, newest first.")] = 100,
    params: Annotated[
        Any, typer.Option(parser=values.params, metavar="JSON", help="Params anew: they are redacted when a task ends.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why; kept in the history of the new task.")] = None,
    as_json: Json = False,
) -> None:
    """Make a new task of each ended one and print the new ids.

    A filter passes over tasks that were retried already. Exit 1 when one of them was refused.
    """
    from sqlalchemy import Connection

    from tenure import client
    from tenure.cli.frame import database, initiator

    states = _states(ids, state, kind)
    made: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    code = 0

    def one(connection: Connection, task_id: UUID) -> None:
        submitted = client.retry(connection, task_id, initiator=initiator(), params=params, reason=reason)
        connection.commit()
        made.append({"id": submitted.id, "retry_of": task_id})
        if not as_json:
            say(str(submitted.id))

    with database() as connection:
        for task_id in ids or _matching(connection, kind, states, limit):
            try:
                one(connection, task_id)
            except TenureError as error:
                connection.rollback()
                code = max(code, error.exit_code)
                refused.append({"id": task_id, "error": str(error)})
                note(str(error))
    if as_json:
        print_json({"retried": made, "refused": refused})
    elif not made and not refused:
        note("no such tasks")
    raise typer.Exit(code)


def _states(ids: list[UUID] | None, state: list[State] | None, kind: str | None) -> list[State]:
    if ids and (state or kind):
        raise UsageError("give ids or a filter, not both")
    if not ids and not (state or kind):
        raise UsageError("nothing to retry: give ids, or a filter such as --state failed --kind KIND")
    for one in state or ():
        if one not in TERMINAL:
            raise UsageError(f"only ended tasks can be retried, not {one} ones")
    return state or [State.FAILED]


def _matching(connection: Any, kind: str | None, states: list[State], limit: int) -> list[UUID]:
    from tenure.store import retryable

    found = retryable.ids(connection, kind=kind, states=[s.value for s in states], limit=limit)
    connection.commit()
    return found
