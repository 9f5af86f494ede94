"""The dispatcher: takes hints from PostgreSQL and publishes them. Any number of them; it never touches `tasks`.

At most one hint per live slot and queue stands in the broker, so priorities and pauses are decided in PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from tenure.runtime.listener import Listener
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store import hints
from tenure.store.hints import Hint, Served
from tenure.store.sessions import Sessions
from tenure.store.transitions.parts import NOTIFY_CHANNEL

BATCH = 100
NET_SECONDS = 5.0  # how often the loss net is cast
REACHED_SECONDS = 5.0  # how often it is written down that the broker answers
BUSY_NET_SECONDS = 60.0  # the same for queues that are never seen empty in the broker
NET_AGE = 15.0  # s a queued task may be without a hint: shorter would multiply messages under a backlog
# Where messages wait, a task may well be without a hint because its own is among them: only what is much older counts
# as lost, and one sent twice is harmless.
BUSY_NET_AGE = 8 * NET_AGE
# After a large submit the statistics know nothing of it, and a plan would sort the whole backlog to take two hints.
_OPTIONS = "-c lock_timeout=1000 -c enable_seqscan=off -c enable_sort=off -c enable_bitmapscan=off"
BUSY, FULL, IDLE = 0.1, 0.02, 1.0

UNKNOWN = ("", "")


class Broker(Protocol):
    """The port to the message broker. Every call is bounded in time and raises BrokerUnavailable."""

    def depth(self, queue: str) -> int: ...
    def publish(self, batch: Sequence[Hint]) -> None: ...
    def identity(self) -> tuple[str | None, str]:
        """(epoch we set in it or None, run id of the server); UNKNOWN for a broker that can tell neither"""
        ...

    def set_epoch(self, epoch: str) -> None: ...
    def close(self) -> None: ...


class Dispatcher:
    """One round publishes what there is room for, in every queue that live workers serve."""

    name = "dispatcher"

    def __init__(self, settings: Settings, broker: Broker, *, published: Callable[[int], None] | None = None) -> None:
        """`published` is told the size of each batch sent."""
        self._sessions = Sessions(settings.session_url, application="tenure dispatcher", options=_OPTIONS)
        self._broker = broker
        self._published = published or (lambda _: None)
        self._listener = Listener(settings.session_url, NOTIFY_CHANNEL)
        self._log = structlog.get_logger("tenure.dispatcher")
        self._served: list[Served] = []
        self._served_at = self._net_at = self._busy_net_at = self._busy_at = self._reached_at = 0.0
        self._checked: tuple[str | None, str] | None = None
        self._found = False  # whether the last round found work

    def run_once(self) -> float:
        now = time.monotonic()
        self._check_broker()
        if now - self._served_at >= 1.0:
            self._refresh()
            self._served_at = now
        published, full = 0, False
        for queue in self._served if self._found else self._waiting():
            room = min(BATCH, queue.slots - self._broker.depth(queue.queue))
            full = full or room <= 0
            if room > 0:
                published += self._publish(queue, room)
        self._found = full or published > 0
        if published:
            self._busy_at = now
            return 0.0
        if full:
            return FULL
        return BUSY if now - self._busy_at < IDLE else IDLE

    def pause(self, watcher: Watcher, seconds: float) -> bool:
        """Sleep until a NOTIFY, the time, or the stop. The notice is a hint: the poll stays correct without it."""
        return self._listener.wait(watcher, seconds)

    def _waiting(self) -> list[Served]:
        """Queues with a hint to take: while there is nothing to do, one statement for all of them is enough."""
        if not self._served:
            return []
        with self._sessions.look() as connection:
            names = hints.waiting(connection, self._served)
        return [queue for queue in self._served if queue.queue in names]

    def _refresh(self) -> None:
        with self._sessions.look() as connection:
            self._served = hints.served(connection)
        if time.monotonic() - self._net_at < NET_SECONDS:
            return
        self._net_at = time.monotonic()
        busy = {queue.queue: self._broker.depth(queue.queue) > 0 for queue in self._served}
        self._cast([queue for queue in busy if not busy[queue]], NET_AGE)
        if self._net_at - self._busy_net_at >= BUSY_NET_SECONDS:
            self._busy_net_at = self._net_at
            self._cast([queue for queue in busy if busy[queue]], BUSY_NET_AGE)

    def _cast(self, queues: list[str], older: float) -> None:
        """The loss net over these queues."""
        if not queues:
            return
        with self._sessions.look() as connection:
            made = hints.hint_again(connection, queues, older=older)
        if made:
            self._log.warning("hinted_again", queues=queues, tasks=made)

    def _publish(self, queue: Served, room: int) -> int:
        with self._sessions.transaction() as connection:
            batch = hints.take(connection, queue, room)
            if batch:
                # Raises: the transaction rolls back and the hints stay. Published but not committed: sent twice, harmless.
                self._broker.publish(batch)
                self._published(len(batch))
        return len(batch)

    def _check_broker(self) -> None:
        """Notice a flushed, restarted or replaced broker, and hint again what may have been lost with it."""
        identity = self._broker.identity()
        due = time.monotonic() - self._reached_at >= REACHED_SECONDS
        if identity in (self._checked, UNKNOWN) and not due:
            return
        epoch, run_id = identity
        with self._sessions.look() as connection:
            known = hints.broker_state(connection)
            if due:
                hints.broker_reached(connection, pace=REACHED_SECONDS - 1)
                self._reached_at = time.monotonic()
        if identity == UNKNOWN:
            return
        if (epoch, run_id) != known:
            with self._sessions.transaction() as connection:
                epoch, made = hints.broker_changed(connection, epoch, run_id)
            self._broker.set_epoch(epoch)
            # Before the first broker nothing can have been lost with one.
            first = not known[1]
            (self._log.info if first else self._log.warning)("broker_changed", hinted=made, first=first)
        self._checked = (epoch, run_id)

    def close(self) -> None:
        self._listener.close()
        self._broker.close()
        self._sessions.dispose()
