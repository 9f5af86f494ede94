"""Faults at a chosen statement of an attempt: not by luck, but counted."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, event


class Point(NamedTuple):
    """Before the n-th statement that an attempt runs, counted from 1: by its body, or by the thread that reads ahead."""

    where: str  # body or ahead
    number: int


@contextmanager
def statements(of_test: Engine, seen: Callable[[Point, str], None]) -> Iterator[None]:
    """Tell of every statement of attempts, before it runs; those on the test's own engine are none."""
    count: Counter[str] = Counter()
    main = threading.current_thread()

    def before(connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        if connection.engine.url == of_test.url and connection.engine.pool is of_test.pool:
            return
        where = "body" if threading.current_thread() is main else "ahead"
        count[where] += 1
        seen(Point(where, count[where]), statement)

    event.listen(Engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", before)


@contextmanager
def fault(of_test: Engine, point: Point, act: Callable[[], None]) -> Iterator[list[str]]:
    """Do something before one statement; the list holds that statement once it has happened."""
    met: list[str] = []

    def seen(here: Point, statement: str) -> None:
        if here == point:
            met.append(statement)
            act()

    with statements(of_test, seen):
        yield met
