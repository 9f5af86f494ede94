"""A fault at the n-th thing a process says to the database: a statement, or a commit. Driven by a count, not by luck."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Line
from typing import Any

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.pool import NullPool

from tests.support.databases import Database
from tests.support.forks import forked
from tests.support.until import until

DIED = 9


@contextmanager
def before_point(number: int, act: Callable[[Any], None]) -> Iterator[None]:
    """Run `act`, with the SQLAlchemy connection, right before the n-th statement or commit of this process, from 1."""
    said = 0

    def count(connection: Any) -> None:
        nonlocal said
        said += 1
        if said == number:
            act(connection)

    def statement(connection: Any, *_: Any) -> None:
        count(connection)

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", count)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", statement)
        event.remove(Engine, "commit", count)


def dies_at(number: int, body: Callable[[], None], database: Database) -> bool:
    """Run `body` in a forked process that is gone, as by SIGKILL, before its n-th point; whether it came that far.

    Answers when the server has noticed: nothing of that process is open any more.
    """

    def run(_: Line) -> None:
        with before_point(number, lambda _: os._exit(DIED)):
            body()

    with forked(run) as child:
        code = child.end()
    assert code in (0, DIED), child.line.recv()
    until(lambda: _sessions(database) == 0)
    return code == DIED


def session_ends_at(number: int, body: Callable[[], None], database: Database) -> bool:
    """Run `body` here; before its n-th point the server ends the session. Whether it came that far."""
    hit = False

    def end(connection: Any) -> None:
        nonlocal hit
        hit = True
        pid = connection.connection.dbapi_connection.info.backend_pid
        engine = create_engine(database.url, poolclass=NullPool)
        with engine.connect() as other:
            other.execute(text("select pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    with before_point(number, lambda connection: None if hit else end(connection)):
        try:
            body()
        except Exception:
            if not hit:
                raise
    return hit


def _sessions(database: Database) -> int:
    engine = create_engine(database.url, poolclass=NullPool)
    with engine.connect() as connection:
        statement = """select count(*) from pg_stat_activity where datname = current_database()
            and application_name in ('tenure scheduler', 'test advance')"""
        return int(connection.execute(text(statement)).scalar_one())
