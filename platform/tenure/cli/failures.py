"""What a failure means to the user: one line and an exit code. Driver text never gets past here."""

from __future__ import annotations

import typer

from tenure.model.errors import (
    CredentialsRejected,
    DatabaseUnavailable,
    SchemaMismatch,
    TenureError,
    Unavailable,
    shortened,
)

_LOST = (
    "the connection to the database was lost in mid-command: "
    "what was asked may or may not have been done, look before you repeat it"
)
# SQLSTATE, or its class, → what to say. Longest match wins.
_STATES: dict[str, TenureError] = {
    "08": DatabaseUnavailable(_LOST),
    "57P": DatabaseUnavailable(_LOST),
    "57014": Unavailable("the database cancelled the statement (statement_timeout?): try again, or raise the timeout"),
    "55P03": Unavailable("a row or table is locked by somebody else: try again (`tenure doctor` names long transactions)"),
    "40": Unavailable("the database asked to try again (deadlock or serialisation): repeat the command"),
    "53": Unavailable("the database is out of connections, memory or disk: see its log"),
    "25006": Unavailable("the database is read-only (a standby?): point TENURE_DATABASE_URL at the primary"),
    "42501": CredentialsRejected("the database role lacks a permission on Tenure's tables: grant it, or use their owner"),
    "42P01": SchemaMismatch("a table is missing: run `tenure migrate`"),
    "42703": SchemaMismatch("a column is missing: run `tenure migrate`"),
    "42883": SchemaMismatch("a function is missing: run `tenure migrate` (PostgreSQL 18 or newer is needed)"),
}  # fmt: skip


def explain(error: Exception) -> tuple[str, int]:
    """The line for stderr and the exit code of an error that ended a command."""
    if isinstance(error, typer.TyperException):
        text = error.format_message().replace("Value error, ", "")  # pydantic's word for our own refusals
        # More than one line is the help of a group called without a command.
        return (text if "\n" in text else f"tenure: {text}"), error.exit_code
    ours = as_ours(error)
    return f"tenure: {shortened(ours, 600)}", ours.exit_code


def as_ours(error: Exception) -> TenureError:
    """Any error as one whose text may be shown."""
    if isinstance(error, TenureError):
        return error
    from sqlalchemy.exc import DBAPIError, TimeoutError

    if isinstance(error, DBAPIError):
        return from_driver(error)
    if isinstance(error, TimeoutError):
        return DatabaseUnavailable("no database connection came free in time: try again")
    if isinstance(error, OSError) and error.strerror:
        return TenureError(f"{error.strerror}{f': {error.filename}' if error.filename else ''}")
    return TenureError(f"internal error ({type(error).__name__}): `tenure --debug …` shows where")


def from_driver(error: Exception) -> TenureError:
    """A driver's error (SQLAlchemy DBAPIError) as one of ours, judged by its SQLSTATE."""
    from tenure.store.connect import disconnected

    state = getattr(getattr(error, "orig", None), "pgcode", None) or ""
    for length in (5, 3, 2):
        if found := _STATES.get(state[:length]):
            return found
    if disconnected(error):
        return DatabaseUnavailable(_LOST)
    return TenureError(f"the database refused a statement (SQLSTATE {state or 'none'}): `tenure --debug …` shows which")
