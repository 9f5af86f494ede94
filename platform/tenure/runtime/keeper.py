"""The keeper: one thread in the worker's main process that renews every lease and carries every stop to the children.

Two statements a second at most, whatever runs. It decides nothing about outcomes and writes no task.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from tenure.model.records import Holder
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime.channel import StopChannel
from tenure.runtime.forced import force_end
from tenure.runtime.health import Health
from tenure.runtime.instance import alive
from tenure.runtime.listener import Listener
from tenure.runtime.metrics import Metrics
from tenure.runtime.seat import boottime_ns
from tenure.runtime.shared import WakePipe
from tenure.runtime.shutdown import Watcher
from tenure.runtime.worker_row import WorkerRow
from tenure.settings import Settings
from tenure.store import leases
from tenure.store.sessions import Sessions
from tenure.store.transitions import recover
from tenure.store.transitions.parts import STOP_CHANNEL
from tenure.store.workers import Boot, ended

GRACE = 5.0  # s a lease may be young without standing in a slot: its claim's answer is still on the way


class Keeper:
    """Stepped by `run_once`, which never sleeps; raises DBAPIError when the database is away (trust then runs out)."""

    name = "keeper"

    def __init__(
        self,
        settings: Settings,
        channel: StopChannel,
        boot: Boot,
        registry: Registry,
        metrics: Metrics | None = None,
        health: Health | None = None,
        refill: Callable[[], None] = lambda: None,
    ) -> None:
        """`metrics` and `health`: those the process's endpoint tells of, when it has one. `refill`: called from any thread
        when a child is found dead, for the pool to replace it."""
        self._settings = settings
        self._channel = channel
        self._worker = boot.boot_id
        self._row = WorkerRow(boot)
        self._metrics = metrics or Metrics()
        self._health = health or Health(settings.home, boot.role)
        self._log = structlog.get_logger("tenure.keeper")
        # A renewal that waits for a lock is worth less than the next one.
        self._sessions = Sessions(settings.session_url, application="tenure keeper", options="-c lock_timeout=1000")
        self._registry = registry
        self._refill = refill
        self._poked = WakePipe()
        self._listener = Listener(settings.session_url, STOP_CHANNEL)
        self._renew_at = 0.0
        self._given_up: deque[tuple[int, int, int]] = deque()
        self._holdings: list[leases.Holding] = []
        self._idle: set[int] = set()  # tokens that stood in no slot at the last look, though their holder lives

    def run_once(self) -> float:
        """Renew if due, look for stops and deadlines; seconds until the next look."""
        self._health.beat()  # first: a database that is away is no reason to be restarted
        if self._given_up:  # somebody waits for these ends
            self._settle_dead()
            self._settle_given_up()
        with self._sessions.look() as connection:
            if time.monotonic() >= self._renew_at:
                self._renew(connection)
                self._renew_at = time.monotonic() + self._settings.renew_seconds
            self._look(connection)
            self._row.write(connection, self._work())
        self._settle_dead()
        self._settle_given_up()
        self._settle_left_behind()
        return self._settings.watch_seconds

    def pause(self, watcher: Watcher, seconds: float) -> bool:
        """Sleep until a NOTIFY of a stop request, a poke, the time, or the stop."""
        self._listener.wait(watcher, seconds, also=self._poked)
        self._poked.drain()
        return watcher.is_running()

    def give_up(self, slot: int, token: int, pid: int) -> None:
        """Settle this one at once: its child has been ended, or is a thread that nothing ends. Any thread may call it."""
        self._given_up.append((slot, token, pid))
        self._poked.ring()
        self._refill()  # here as well: the keeper's own round may hang with the database

    def _work(self) -> str | None:
        if not self._holdings:
            return None
        since = min(one.acquired for one in self._holdings).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{len(self._holdings)} running, the oldest since {since}"

    def _renew(self, connection: Connection) -> None:
        held = {token: slot for slot, token, _ in self._channel.slots()}
        anchored = boottime_ns()  # the start of the renewal: never later than what the database counts from
        renewals = leases.renew(
            connection, self._worker, list(held), lease_seconds=self._settings.lease_seconds, grace=GRACE
        )
        until = anchored + int(self._settings.lease_seconds * 1e9)
        found = {one.token: one for one in renewals}
        for token, slot in held.items():
            one = found.get(token)
            if one is None:
                self._lost(slot, token)
            elif one.renewed:
                self._metrics.renewals.inc()
                self._channel.trust(slot, token, until)

    def _lost(self, slot: int, token: int) -> None:
        # A task that has just ended leaves its slot a moment after its lease: only a token still held is lost.
        known = self._channel.asked(slot, token) is Cause.LEASE_LOST
        if self._channel.held(slot)[0] == token and self._channel.ask(slot, token, Cause.LEASE_LOST) and not known:
            self._metrics.refused.inc()
            self._metrics.stops.labels("lease_lost").inc()
            self._log.warning("lease_lost", token=token)

    def _look(self, connection: Connection) -> None:
        """Stop requests; deadlines are rung by the ladder on time, and found here by the database's clock if they were not."""
        self._holdings = leases.holdings(connection, self._worker)
        self._metrics.leases.set(len(self._holdings))
        slots = {token: slot for slot, token, _ in self._channel.slots()}
        for one in self._holdings:
            slot = slots.get(one.token)
            if slot is not None and (one.cancel or one.late):
                self._ask(slot, one.token, Cause.CANCEL if one.cancel else Cause.DEADLINE, str(one.task_id))

    def _ask(self, slot: int, token: int, cause: Cause, task_id: str | None = None) -> None:
        """Every round until it is heard; said once."""
        known = self._channel.asked(slot, token)
        if self._channel.ask(slot, token, cause) and known is not cause:
            self._metrics.stops.labels(cause.name.lower()).inc()
            self._log.info("stop_asked", task_id=task_id, token=token, cause=cause.name.lower())

    def _settle_dead(self) -> None:
        """What a child that is gone held is settled now, not when its lease expires: nobody else can be running it.

        The leases tell what the slots do not: a successor may have taken the slot before anybody looked.
        """
        for slot, token, pid in self._channel.slots():
            if not self._channel.alive(slot, token, pid):
                self._refill()
                self._settle_child(slot, token, pid)
        slots = {pid for _, _, pid in self._channel.slots()}
        for pid in {one.pid for one in self._holdings} - slots:
            if not alive(pid):
                self._settle_process(pid)

    def _settle_child(self, slot: int, token: int, pid: int) -> None:
        """By the stop that was asked, if one was: the child was ended for it. Else as lost."""
        self._force(slot, token, pid)
        self._settle_process(pid)
        with self._sessions.look() as connection:
            left = leases.held_by(connection, self._worker, pid)
        if not left:  # else its session is still busy on the server and has the row: the next look settles it
            self._channel.forget(slot, token)

    def _settle_process(self, pid: int) -> None:
        with self._sessions.transaction() as connection:
            settled = recover.recover_process(connection, self._worker, pid, crash_bound=self._settings.crash_bound)
        for lost_id, state, outcome in settled:
            self._metrics.recovered.labels(outcome or state).inc()
            self._log.warning("child_died", pid=pid, task_id=str(lost_id), state=state, outcome=outcome)

    def _settle_left_behind(self) -> None:
        """What a live thread neither works at nor gave back: it left without the end of its body, and without a word.

        Only what stood so at the last look too, and is past the grace of a claim whose answer is still on the way.
        """
        busy = {pid for _, _, pid in self._channel.slots()}
        idle = {one.token for one in self._holdings if one.pid not in busy and one.age > GRACE}
        for token in idle & self._idle:
            with self._sessions.transaction() as connection:
                settled = recover.recover_token(connection, self._worker, token, crash_bound=self._settings.crash_bound)
            for lost_id, state, outcome in settled:
                self._metrics.recovered.labels(outcome or state).inc()
                self._log.error("left_behind", task_id=str(lost_id), token=token, state=state, outcome=outcome)
        self._idle = idle

    def _settle_given_up(self) -> None:
        """A thread that did not stop keeps its slot until it ends by itself; its token is void from here on."""
        while self._given_up:
            slot, token, pid = self._given_up[0]
            # A killed child may not be dead yet: what it holds is settled when it is, by `_settle_dead`.
            if self._same_process(pid) and self._channel.held(slot) == (token, pid):
                self._force(slot, token, pid)
                self._channel.ask(slot, token, Cause.LEASE_LOST)
            self._given_up.popleft()

    def _same_process(self, pid: int) -> bool:
        return os.path.exists(f"/proc/self/task/{pid}")

    def _force(self, slot: int, token: int, pid: int) -> None:
        """Write the end that the stop asks for, if one was asked and the lease stands."""
        cause = self._channel.asked(slot, token)
        with self._sessions.transaction() as connection:
            done = force_end(connection, self._registry, Holder(self._worker, pid), token, cause)
        if done is not None:
            self._log.warning("forced", pid=pid, **done.said())

    def close(self) -> None:
        """Settle children ended by the shutdown, and say that this boot has ended, if the database can hear it."""
        try:
            self._settle_dead()
            self._settle_given_up()
            with self._sessions.look() as connection:
                ended(connection, self._worker)
        except DBAPIError as error:
            self._log.info("end_not_written", error=type(error).__name__)
        self._listener.close()
        self._sessions.dispose()
