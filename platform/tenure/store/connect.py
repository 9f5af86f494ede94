"""Engines and what a refused connection means. Driver text never gets past here: it can hold hosts and users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from tenure.model.errors import CredentialsRejected, DatabaseUnavailable, TenureError

# libpq gives no SQLSTATE for a failed connect: these words are in the messages of a server that speaks English. We cannot
# ask it to: only a superuser may set lc_messages, and it would come too late.
_REJECTED = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
)
_DENIED = ("permission denied",)
_MISSING = ("does not exist",)


def dumps(value: Any) -> str:
    """JSON for a jsonb column; refuses NaN and infinities, which jsonb cannot hold."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def session_arguments(application: str, options: str = "") -> dict[str, Any]:
    """What every session says to libpq: its name in pg_stat_activity, UTC, and to notice a dead peer within seconds.

    READ COMMITTED too, whatever the database's default is: guards and locks are looked at as they are now.
    """
    return {
        "connect_timeout": 5,
        "application_name": application,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "options": rf"-c TimeZone=UTC -c default_transaction_isolation=read\ committed {options}".strip(),
    }


def engine_for(url: str, *, application: str, pooled: bool = False, options: str = "") -> Engine:
    """An engine for one process: unpooled unless asked."""
    sizing: dict[str, Any] = (
        {"pool_size": 2, "max_overflow": 3, "pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    )
    return create_engine(url, connect_args=session_arguments(application, options), json_serializer=dumps, **sizing)


@contextmanager
def reachable(engine: Engine) -> Iterator[Connection]:
    """A connection, or a DatabaseUnavailable / CredentialsRejected that says what to check."""
    try:
        connection = engine.connect()
    except OperationalError as error:
        raise refused(error) from None
    with connection:
        yield connection


def refused(error: DBAPIError) -> TenureError:
    """What a failed connect means for the user: rejected credentials, a missing database, or a server that is away."""
    text = str(error.orig)
    if any(words in text for words in _REJECTED):
        return CredentialsRejected("the database refused the user or password: check TENURE_DATABASE_URL")
    if any(words in text for words in _DENIED):
        return CredentialsRejected("the role of TENURE_DATABASE_URL may not connect to its database: grant it CONNECT")
    if any(words in text for words in _MISSING):
        return CredentialsRejected(
            "the database or role of TENURE_DATABASE_URL does not exist: create it or correct the URL"
        )
    return DatabaseUnavailable("the database cannot be reached: check TENURE_DATABASE_URL, and that the server is up")


def disconnected(error: BaseException) -> bool:
    """Whether a driver error means the connection (not the statement) failed."""
    return isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error, OperationalError))
