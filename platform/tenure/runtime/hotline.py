"""The hot session with what a lost answer means: reconnect, look at the leases of this process, settle what is unknown.

A statement whose answer was lost may have committed. The old token still there: end again. An unknown token: released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

import psycopg2
import structlog

from tenure.model.records import Claimed, Ended, Holder, Lease
from tenure.model.states import TERMINAL
from tenure.runtime import outcome
from tenure.runtime.backoff import Backoff
from tenure.runtime.masking import signals_masked
from tenure.runtime.seat import boottime_ns
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.hot import VERBS, Backend, HotSession, RunOn

T = TypeVar("T")
# A statement that met a lock, a full server or a shutdown of it is worth another try; a mistake of ours is not.
_PASSING = (psycopg2.OperationalError, psycopg2.InterfaceError)
# How an attempt stands in history where that is not the task's new state.
_HOW = {"release": "released", "retry_later": "retried", "recover": "lost"}
_DECIDED = {"succeeded", "partially_succeeded", "failed"}


class Hotline:
    """Claims and ends that outlive a lost connection. While the database is away it waits; at a stop it gives up.

    It keeps account of the tokens in hand: whatever else this process holds was claimed in a lost answer.
    """

    def __init__(self, settings: Settings, kinds: Sequence[str], holder: Holder, shutdown: Watcher) -> None:
        self._settings = settings
        self._kinds = list(kinds)
        self._holder = holder
        self._shutdown = shutdown
        self._session: HotSession | None = None
        self._in_hand: dict[int, Lease] = {}
        self._lost: list[Backend] = []
        self._asked_at = boottime_ns()
        self._retried = False  # whether the last statement went through only after an earlier answer was lost
        self._log = structlog.get_logger("tenure.hotline")

    @property
    def session(self) -> HotSession:
        if self._session is None:
            self._session = HotSession(
                self._settings.session_url, self._holder, self._kinds, lease_seconds=self._settings.lease_seconds
            )
        return self._session

    @property
    def broken(self) -> bool:
        """Whether the connection was lost and is not made again yet."""
        return self._session is not None and bool(self._session.driver.closed)

    @property
    def trusted_until(self) -> int:
        """To when what the last statement claimed is good (`boottime_ns`), counted from before it was sent."""
        return self._asked_at + int(self._settings.lease_seconds * 1e9)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _lose(self) -> None:
        if self._session is not None:
            self._lost.append(self._session.backend)
        self.close()

    def claim(self, task_id: UUID | str) -> Claimed | None:
        """One task by id. After a lost answer whatever was claimed unseen is handed back, then it is tried again."""
        self._in_hand.clear()
        got = self._patiently(lambda: self.session.claim(task_id))
        self._in_hand.update({got.lease.token: got.lease} if got else {})
        return got

    def decline(self, task_id: UUID | str) -> None:
        """Do not claim; give the hint back that the message was made from."""
        self._patiently(lambda: self.session.hint_back(task_id))

    def claim_next(self, run_on: RunOn) -> list[Claimed]:
        got = self._patiently(lambda: self.session.claim_next(run_on)) or []
        self._in_hand.update({one.lease.token: one.lease for one in got})
        return got

    def succeed(
        self,
        claimed: Sequence[Claimed],
        results: Sequence[str | None],
        summaries: Sequence[str | None],
        run_on: RunOn | None,
    ) -> tuple[set[int], list[Claimed]]:
        """End all as succeeded and claim the next. Answers the accepted tokens and what was claimed."""
        leases = [one.lease for one in claimed]

        def end() -> tuple[set[int], list[Claimed]]:
            return self.session.end(leases, outcome.SUCCEEDED, summaries=summaries, results=results, run_on=run_on)

        with signals_masked():
            accepted, got = self._patiently(end) or (set(), [])
            refused = [one for one in leases if one.token not in accepted]
            accepted |= self._written(refused, {outcome.SUCCEEDED.state}).keys()
        for lease in leases:
            self._in_hand.pop(lease.token, None)
        self._in_hand.update({one.lease.token: one.lease for one in got})
        return accepted, got

    def settle(self, claimed: Claimed, how: Ended, result: str | None, summary: str | None) -> Ended | None:
        """Write any other end; what was written. None: the lease is lost (or must not be trusted), nothing was."""
        lease = claimed.lease
        if how is outcome.LOST:
            self._log.warning("lease_lost", task_id=str(lease.task_id), token=lease.token)
            done = None
        else:
            with signals_masked():
                done = self._patiently(lambda: self._write(claimed, how, result, summary))
                done = done or self._known(lease, how)
        self._in_hand.pop(lease.token, None)
        return done

    def settle_directly(
        self, claimed: Claimed, how: Ended, result: str | None, summary: str | None, *, fresh: bool
    ) -> Ended | None:
        """`settle` by the shortest statement there is: the task and its activity, no history; on a new connection if
        `fresh`. What was not to end is settled as a lost worker's. Raises psycopg2.Error and ValueError as they come."""
        if fresh:
            self._lose()
        with signals_masked():
            done = self._patiently(lambda: self._write_directly(claimed, how, result, summary))
        self._in_hand.pop(claimed.lease.token, None)
        return done

    def _write_directly(self, claimed: Claimed, how: Ended, result: str | None, summary: str | None) -> Ended | None:
        if how.state not in TERMINAL and how is not outcome.DECIDE:
            settled = self.session.recover_directly(claimed.lease, self._settings.crash_bound)
            return settled and replace(outcome.DISCONNECTED, state=settled[0], outcome=settled[1])
        decided = self.session.verdict(claimed) if how is outcome.DECIDE else how
        return decided if self.session.end_directly(claimed.lease, decided, summary=summary, result=result) else None

    def abandon(self) -> list[Lease]:
        """Settle what is still in hand as a lost worker's, on a new connection; which attempts those were.

        For a caller that is on its way out without having ended them. Raises psycopg2.Error when it cannot.
        """
        left = list(self._in_hand.values())
        if left:
            self._lose()
            with signals_masked():
                for lease in left:
                    self._patiently(lambda lease=lease: self.session.recover_one(lease, self._settings.crash_bound))  # type: ignore[misc]
            self._in_hand.clear()
        return left

    def _write(self, claimed: Claimed, how: Ended, result: str | None, summary: str | None) -> Ended | None:
        lease = claimed.lease
        if how is outcome.DECIDE:
            return self.session.decide(claimed, summary=summary, result=result)
        if how is outcome.DISCONNECTED:
            settled = self.session.recover_one(lease, self._settings.crash_bound)
            return settled and replace(how, state=settled[0], outcome=settled[1])
        if how.verb == "release":
            done = self.session.release(lease, how)
        elif how.verb == "retry_later":
            done = self.session.retry_later(lease, how)
        else:
            done = bool(self.session.end([lease], how, summaries=[summary], results=[result])[0])
        return how if done else None

    def _known(self, lease: Lease, how: Ended) -> Ended | None:
        """The end as it stands in history, where it had been written before its answer was lost."""
        decided = how is outcome.DECIDE
        found = self._written([lease], _DECIDED if decided else {_HOW.get(how.verb, how.state)}).get(lease.token)
        if found is None:
            return None
        return replace(how, verb=VERBS[found], state=found) if decided else how

    def _written(self, refused: Sequence[Lease], known: set[str]) -> dict[int, str]:
        """How those stand whose end had been written before its answer was lost; the others are named: they wrote nothing."""
        if not refused:
            return {}
        found = (self._patiently(lambda: self.session.wrote(refused)) or {}) if self._retried else {}
        written = {token: how for token, how in found.items() if how in known}
        for lease in refused:
            if lease.token not in written:
                self._log.warning("end_refused", task_id=str(lease.task_id), token=lease.token)
        return written

    def _patiently(self, action: Callable[[], T]) -> T | None:
        """Run it; on a lost connection reconnect, hand back what was claimed unseen, run it again. None: gave up."""
        backoff = Backoff(initial=0.1, ceiling=2.0)
        lost = self._retried = False
        while True:
            try:
                if lost:
                    self._hand_back()
                self._asked_at = boottime_ns()
                done = action()
                self._retried = lost
                return done
            except psycopg2.Error as error:
                if not self._passing(error):
                    raise
                self._log.warning("database_away", error=type(error).__name__, attempt=backoff.attempt())
                lost = True
                self._lose()
            # A stop leaves no time to wait for the database: what could not be written is recovered from the lease.
            if not self._shutdown.is_running() and backoff.attempt() > 0:
                return None
            if not backoff.wait(self._shutdown) and backoff.attempt() > 0:
                return None
            backoff.failed()

    def _passing(self, error: psycopg2.Error) -> bool:
        # An answer torn in the middle comes as whatever the driver made of it: the closed connection is what tells.
        too_large = (error.pgcode or "").startswith("54")  # program limits: the same again meets the same limit
        return (isinstance(error, _PASSING) and not too_large) or self.broken

    def _hand_back(self) -> None:
        """Release what this process holds but does not know of: a claim that committed while its answer was lost.

        The lost session may still be at it: first it has to be gone from the server.
        """
        while self._lost:
            self.session.end_session(self._lost[-1])
            self._lost.pop()
        for lease in self.session.held():
            if lease.token not in self._in_hand:
                self._log.warning("unknown_claim_released", task_id=str(lease.task_id), token=lease.token)
                self.session.release(lease)
