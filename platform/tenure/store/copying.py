"""COPY on a SQLAlchemy connection: the one thing besides LISTEN for which the bare driver is needed."""

from __future__ import annotations

import io
from typing import Any

import psycopg2
from sqlalchemy import Connection

_CHUNK = 1 << 16


def copy(connection: Connection, statement: str, lines: str) -> None:
    """Run `copy … from stdin` in the connection's transaction, with lines in COPY's text format.

    Raises psycopg2.Error; a lost connection as any statement on it would, so that whoever watches it knows.
    """
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor:
            cursor.copy_expert(statement, io.BytesIO(lines.encode()), _CHUNK)
    except psycopg2.Error:
        if driver.closed:
            connection.exec_driver_sql("select 1")
        raise
