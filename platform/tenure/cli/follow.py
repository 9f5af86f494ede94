"""Follows one task by polling: at most five reads a second, outside any transaction, ended at once by Ctrl-C."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tenure.cli.frame import check_schema, connected, database_url
from tenure.cli.output import note, plain, print_json, say
from tenure.model.errors import DatabaseUnavailable, NoSuchTask
from tenure.model.states import TERMINAL, State

Snapshot = dict[str, Any]
PACE = 0.2
PATIENCE = 60.0  # seconds a database may be away while we follow: what we follow goes on without us
TIMED_OUT = 3
_ENDED = frozenset(TERMINAL)


def snapshots(task_id: UUID, timeout: float | None = None) -> Iterator[Snapshot]:
    """The task again and again until it has ended (that one is yielded too) or `timeout` seconds have passed.

    Raises NoSuchTask, KeyboardInterrupt at Ctrl-C, DatabaseUnavailable when the database stays away.
    """
    import signal

    from tenure.runtime.shutdown import Shutdown

    stop = Shutdown()
    stop.listen_for_signals(signal.SIGINT)
    watcher = stop.watcher()
    until = None if timeout is None else time.monotonic() + timeout
    for seen in _reads(task_id, watcher):
        yield seen
        left = PACE if until is None else min(PACE, until - time.monotonic())
        if State(seen["state"]) in _ENDED or left <= 0:
            return
        if not watcher.sleep(left):
            raise KeyboardInterrupt


def _reads(task_id: UUID, watcher: Any) -> Iterator[Snapshot]:
    """Reads without end; a lost connection is made anew for PATIENCE seconds."""
    from sqlalchemy.exc import DBAPIError

    from tenure.runtime.backoff import Backoff
    from tenure.store import progress
    from tenure.store.connect import disconnected

    backoff, lost_at = Backoff(initial=0.2, ceiling=2.0), 0.0
    while True:
        try:
            with connected(database_url()) as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                check_schema(connection)
                while row := progress.read(connection, task_id):
                    lost_at = 0.0
                    backoff.succeeded()
                    yield row
                raise NoSuchTask(f"no task {task_id}")
        except (DBAPIError, DatabaseUnavailable) as error:
            lost_at = lost_at or time.monotonic()
            first = backoff.attempt() == 0
            if not (isinstance(error, DatabaseUnavailable) or disconnected(error)):
                raise
            if time.monotonic() - lost_at > PATIENCE:
                raise DatabaseUnavailable("the database stayed away: the task goes on without this command") from None
            if first:
                note("the database is away: trying again")
            if not backoff.wait(watcher):
                raise KeyboardInterrupt from None
            backoff.failed()


def exit_code(seen: Snapshot) -> int:
    """0 succeeded, 1 ended otherwise, 3 not ended."""
    state = State(seen["state"])
    if state not in _ENDED:
        return TIMED_OUT
    return 0 if state is State.SUCCEEDED else 1


def sentence(seen: Snapshot) -> str:
    """How a task stands, in one line."""
    outcome = f" ({seen['outcome']})" if seen["outcome"] else ""
    error = f": {plain(seen['error_message'])}" if seen["error_message"] else ""
    return f"{seen['state']}{outcome}{error}"


def until_ended(task_id: UUID, *, timeout: float | None, as_json: bool) -> int:
    """Wait silently, then say how it stands. Answers the exit code."""
    (last,) = deque(snapshots(task_id, timeout), maxlen=1)
    _report(task_id, last, as_json=as_json)
    return exit_code(last)


def to_the_end(task_id: UUID, *, as_json: bool) -> int:
    """Follow with a bar on a terminal, else with a line per change on stderr; then say how it ended."""
    import sys

    from tenure.cli.bar import Bar

    last: Snapshot = {}
    if sys.stderr.isatty():
        with Bar() as bar:
            for last in snapshots(task_id):
                bar.update(last)
    else:
        before = None
        for last in snapshots(task_id):
            now = (last["state"], last["attempt"])
            if now != before:
                note(f"{last['state']}, attempt {last['attempt']}")
            before = now
    _report(task_id, last, as_json=as_json)
    return exit_code(last)


def changes(task_id: UUID) -> int:
    """One JSON document per line at each change. Answers the exit code."""
    before: Snapshot = {}
    for seen in snapshots(task_id):
        at = seen.pop("at")
        if seen != before:
            print_json({"at": at, **seen}, indent=None)
        before = seen
    return exit_code(before)


def _report(task_id: UUID, last: Snapshot, *, as_json: bool) -> None:
    if not as_json:
        say(sentence(last))
        return
    from tenure import client

    with connected(database_url()) as connection:
        print_json(client.get(connection, task_id))
