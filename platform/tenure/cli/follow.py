"""Follows a task or an activity: told of changes where it can be, else by polling; outside any transaction, ended at once
by Ctrl-C."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tenure.cli.followed import Followed, FollowedTask
from tenure.cli.frame import check_schema, connected, database_url
from tenure.cli.measured import OPEN, Measured, Snapshot, document
from tenure.cli.output import note, print_json, say
from tenure.model.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from tenure.runtime.listener import Listener
    from tenure.runtime.shutdown import Watcher

PACE = 0.2  # s between reads
LISTENING = 1.0  # s between reads where changes are told
PATIENCE = 60.0  # seconds a database may be away while we follow: what we follow goes on without us


class _Pause:
    """The time between two reads. While phases are open their writers tell of each change, and of the end."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._listener: Listener | None = None

    def wait(self, seen: Snapshot, seconds: float, *, live: bool) -> bool:
        """False at a stop."""
        if not (live and any(phase["status"] in OPEN for phase in seen["phases"])):
            return self._watcher.sleep(min(seconds, PACE))
        if self._listener is None:
            from tenure.runtime.listener import Listener
            from tenure.store.phases import CHANNEL

            activity = str(seen["activity_id"])
            self._listener = Listener(database_url(direct=True), CHANNEL, payload=activity, quiet=True)
            return self._listener.wait(self._watcher, 0.01)  # what was told before it listened is read now
        pace = LISTENING if self._listener.listening else PACE
        return self._listener.wait(self._watcher, min(seconds, pace))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


def snapshots(followed: Followed, timeout: float | None = None, *, live: bool = False) -> Iterator[Snapshot]:
    """What is followed, again and again until it has ended (that one is yielded too) or `timeout` seconds have passed.

    `live`: also between two reads, where it is told. Raises NoSuchTask or Refused for an unknown id, KeyboardInterrupt at
    Ctrl-C, DatabaseUnavailable when the database stays away.
    """
    import signal

    from tenure.runtime.shutdown import Shutdown

    stop = Shutdown()
    stop.listen_for_signals(signal.SIGINT)
    watcher = stop.watcher()
    until = None if timeout is None else time.monotonic() + timeout
    with closing(_Pause(watcher)) as pause:
        for seen in _reads(followed, watcher):
            yield seen
            left = LISTENING if until is None else min(LISTENING, until - time.monotonic())
            if followed.ended(seen) or left <= 0:
                return
            if not pause.wait(seen, left, live=live):
                raise KeyboardInterrupt


def _reads(followed: Followed, watcher: Watcher) -> Iterator[Snapshot]:
    """Reads without end; a lost connection is made anew for PATIENCE seconds."""
    from sqlalchemy.exc import DBAPIError

    from tenure.runtime.backoff import Backoff
    from tenure.store.connect import disconnected

    backoff, lost_at = Backoff(initial=0.2, ceiling=2.0), 0.0
    while True:
        try:
            with connected(database_url()) as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                check_schema(connection)
                while row := followed.read(connection):
                    lost_at = 0.0
                    backoff.succeeded()
                    yield row
                raise followed.missing()
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


def until_ended(task_id: UUID, *, timeout: float | None, as_json: bool) -> int:
    """Wait silently, then say how the task stands. Answers the exit code."""
    followed = FollowedTask(task_id)
    (last,) = deque(snapshots(followed, timeout), maxlen=1)
    _report(followed, last, as_json=as_json)
    return followed.exit_code(last)


def to_the_end(task_id: UUID, *, as_json: bool) -> int:
    """`watched` for a task that a command has started."""
    return watched(FollowedTask(task_id), as_json=as_json)


def watched(followed: Followed, *, as_json: bool = False) -> int:
    """Follow on stderr, with bars on a terminal and else with a line per change; then say how it ended."""
    import sys

    from tenure.cli.output import console
    from tenure.cli.view import Lines, View

    last: Snapshot = {}
    measured = Measured()
    with View(console(stderr=True)) if sys.stderr.isatty() else Lines(note) as view:
        for last in snapshots(followed, live=True):
            view.show(followed.title(last), measured.bars(last))
    _report(followed, last, as_json=as_json)
    return followed.exit_code(last)


def changes(followed: Followed) -> int:
    """One JSON document per line at each change. Answers the exit code."""
    before: Snapshot = {}
    last: Snapshot = {}
    measured = Measured()
    for last in snapshots(followed, live=True):
        bars = measured.bars(last)
        now = {name: value for name, value in last.items() if name != "at"}
        if now != before:
            print_json(document(last, bars), indent=None)
        before = now
    return followed.exit_code(last)


def _report(followed: Followed, last: Snapshot, *, as_json: bool) -> None:
    if not as_json:
        say(followed.sentence(last))
        return
    with connected(database_url()) as connection:
        whole: Any = followed.whole(connection)
        print_json(whole)
