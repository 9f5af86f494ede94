"""When a child of `tenure up` can do work. Looks; changes nothing."""

from __future__ import annotations

import socket

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tenure.cli.frame import connected
from tenure.model.errors import DatabaseUnavailable

# The row of this process, not of an earlier one that had its pid on another node: it has just been started.
_REGISTERED = text("""select exists (select 1 from workers where role = 'worker' and pid = :pid and ended_at is null
    and last_seen > clock_timestamp() - interval '1 minute')""")


def registered(url: str, pid: int) -> bool:
    """Whether the worker whose main process is `pid` has registered; False also while the database is away."""
    try:
        with connected(url) as connection:
            return bool(connection.execute(_REGISTERED, {"pid": pid}).scalar())
    except (DBAPIError, DatabaseUnavailable):
        return False


def listens(host: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True
