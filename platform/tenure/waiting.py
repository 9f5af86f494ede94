"""Waiting for something in the database by looking again and again: short naps first, no transaction between two looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from tenure.caller import AnyConnection
from tenure.model.errors import DatabaseUnavailable, UsageError
from tenure.store.connect import disconnected, engine_for, reachable

# Most who wait, wait for something short. A NOTIFY at every end would cost everybody else.
FIRST_NAP, GROWTH = 0.01, 1.3
LONGEST_NAP = 0.5
PATIENCE = 60.0  # s that a database may be away while somebody waits: what he waits for goes on without him

Open = Callable[[], AbstractContextManager[AnyConnection]]
Source = str | Engine | Open


def naps(timeout: float | None, *, longest: float = LONGEST_NAP) -> Iterator[None]:
    """Yields whenever it is time to look: at once, then after naps that grow to `longest`, for the last time when
    `timeout` seconds have passed."""
    end = None if timeout is None else time.monotonic() + timeout
    nap, pause = FIRST_NAP, threading.Event()
    while True:
        yield
        left = longest if end is None else end - time.monotonic()
        if left <= 0:
            return
        pause.wait(min(nap, left, longest))
        nap *= GROWTH


@contextmanager
def opener(source: Source) -> Iterator[Open]:
    """What opens a connection or session for each look: of a URL, of an engine, or the caller's own (a sessionmaker).

    A connection that is open already is refused: its transaction may never see the end of what is waited for.
    """
    if isinstance(source, Engine):
        yield lambda: reachable(source)
    elif isinstance(source, str):
        engine = engine_for(source, application="tenure wait", pooled=True)
        try:
            yield lambda: reachable(engine)
        finally:
            engine.dispose()
    elif callable(source):
        yield source
    else:
        raise UsageError(
            "waiting needs a URL, an engine or what makes sessions: a session's own transaction would stay open"
        )


class Patience:
    """How long a database has been away; `lost` raises DatabaseUnavailable when it was too long."""

    def __init__(self) -> None:
        self._lost_at: float | None = None

    def found(self) -> None:
        self._lost_at = None

    def lost(self, error: DBAPIError | DatabaseUnavailable) -> None:
        """Raises the error itself where it is not one of the connection."""
        if not isinstance(error, DatabaseUnavailable) and not disconnected(error):
            raise error
        now = time.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at > PATIENCE:
            raise DatabaseUnavailable("the database stayed away: the task goes on, whoever waits for it") from None
