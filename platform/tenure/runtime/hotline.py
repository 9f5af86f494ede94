"""The hot session with what a lost answer means: reconnect, look at the leases of this process, settle what is unknown.

A statement whose answer was lost may have committed. The old token still there: end again. An unknown token: released.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import psycopg2
import structlog

from tenure.model.records import Claimed, Ended, Holder, Lease
from tenure.runtime import outcome
from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.hot import HotSession, RunOn

T = TypeVar("T")
_MASKED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGQUIT, signal.SIGINT}
# A statement that met a lock, a full server or a shutdown of it is worth another try; a mistake of ours is not.
_PASSING = (psycopg2.OperationalError, psycopg2.InterfaceError)


@contextmanager
def signals_masked() -> Iterator[None]:
    """A cold shutdown raises inside the child: it must not tear the last write."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Hotline:
    """Claims and ends that outlive a lost connection. While the database is away it waits; at a stop it gives up."""

    def __init__(self, settings: Settings, kinds: Sequence[str], holder: Holder, shutdown: Watcher) -> None:
        self._settings = settings
        self._kinds = list(kinds)
        self._holder = holder
        self._shutdown = shutdown
        self._session: HotSession | None = None
        self._log = structlog.get_logger("tenure.hotline")

    @property
    def session(self) -> HotSession:
        if self._session is None:
            self._session = HotSession(
                self._settings.session_url, self._holder, self._kinds, lease_seconds=self._settings.lease_seconds
            )
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def claim(self, task_id: UUID | str) -> Claimed | None:
        """One task by id. After a lost answer whatever was claimed unseen is handed back, then it is tried again."""
        return self._patiently(lambda: self.session.claim(task_id), ending=())

    def claim_next(self, run_on: RunOn) -> list[Claimed]:
        return self._patiently(lambda: self.session.claim_next(run_on), ending=()) or []

    def succeed(
        self,
        claimed: Sequence[Claimed],
        results: Sequence[str | None],
        summaries: Sequence[str | None],
        run_on: RunOn | None,
    ) -> tuple[set[int], list[Claimed]]:
        """End all as succeeded and claim the next. Answers the accepted tokens and what was claimed."""
        leases = [one.lease for one in claimed]
        tokens = {lease.token for lease in leases}

        def end() -> tuple[set[int], list[Claimed]]:
            return self.session.end(leases, outcome.SUCCEEDED, summaries=summaries, results=results, run_on=run_on)

        with signals_masked():
            done = self._patiently(end, ending=tokens)
        if done is None:
            return set(), []
        accepted, got = done
        for lost in tokens - accepted:
            self._log.warning("end_refused", token=lost, reason="the lease was lost; nothing was written")
        return accepted, got

    def settle(self, claimed: Claimed, how: Ended, result: str | None, summary: str | None) -> bool:
        """Write any other end. False: the lease is lost (or must not be trusted) and nothing was written."""
        if how is outcome.LOST:
            self._log.warning("lease_lost", task_id=str(claimed.lease.task_id), token=claimed.lease.token)
            return False
        with signals_masked():
            done = self._patiently(
                lambda: self._write(claimed.lease, how, result, summary), ending={claimed.lease.token}
            )
        if not done:
            self._log.warning(
                "end_refused", token=claimed.lease.token, reason="the lease was lost; nothing was written"
            )
        return bool(done)

    def _write(self, lease: Lease, how: Ended, result: str | None, summary: str | None) -> bool:
        if how.verb == "release":
            return self.session.release(lease)
        if how.verb == "retry_later":
            return self.session.retry_later(lease, how)
        accepted, _ = self.session.end([lease], how, summaries=[summary], results=[result])
        return bool(accepted)

    def _patiently(self, action: Callable[[], T], *, ending: set[int] | tuple[()]) -> T | None:
        """Run it; on a lost connection reconnect, hand back what was claimed unseen, run it again. None: gave up."""
        backoff = Backoff(initial=0.1, ceiling=2.0)
        lost = False
        while True:
            try:
                if lost:
                    self._hand_back(set(ending))
                return action()
            except _PASSING as error:
                self._log.warning("database_away", error=type(error).__name__, attempt=backoff.attempt())
                lost = True
                self.close()
            # A stop leaves no time to wait for the database: what could not be written is recovered from the lease.
            if not self._shutdown.is_running() and backoff.attempt() > 0:
                return None
            if not backoff.wait(self._shutdown) and backoff.attempt() > 0:
                return None
            backoff.failed()

    def _hand_back(self, keep: set[int]) -> None:
        """Release what this process holds but does not know of: a claim that committed while its answer was lost."""
        for lease in self.session.held():
            if lease.token not in keep:
                self._log.warning("unknown_claim_released", task_id=str(lease.task_id), token=lease.token)
                self.session.release(lease)
