"""Runs tasks in one process: claim, body, one statement that ends the task and claims the next, until the bound.

It knows no Celery: a message gives it an id, and a sink takes what is to be shown elsewhere (Flower).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import psycopg2
import structlog

from tenure.model.faults import expected, stack, storable, text_of
from tenure.model.records import Claimed, Ended, Holder
from tenure.model.states import TERMINAL
from tenure.model.stops import Cancelled, DeadlineExceeded, LeaseLost, Stop
from tenure.registry import Registry
from tenure.runtime import outcome
from tenure.runtime.advancing import Advancer
from tenure.runtime.attempt import Attempt
from tenure.runtime.connections import Connections
from tenure.runtime.control import Control
from tenure.runtime.ending import Ending
from tenure.runtime.hotline import Hotline
from tenure.runtime.masking import signals_let_in, signals_masked
from tenure.runtime.phases import Narrator
from tenure.runtime.seat import Seat
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.hot import RunOn

BATCH_SECONDS = 0.25  # after so long what has not begun is handed back
BATCH = 8  # tiny kinds: so many may be claimed and ended in one statement


class Sink(Protocol):
    """Where what happens to a task is shown. Called after the commit; must not raise."""

    def started(self, claimed: Claimed) -> None: ...
    def ended(self, claimed: Claimed, how: Ended, seconds: float) -> None: ...


@dataclass(frozen=True)
class Ran:
    """One body that has returned or raised."""

    claimed: Claimed
    how: Ended
    result: str | None
    summary: str | None
    seconds: float


class Executor:
    """One per process (per thread in a threads pool): a connection, a seat, the kinds it knows."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        holder: Holder,
        seat: Seat,
        shutdown: Watcher,
        sink: Sink,
        *,
        leave: Callable[[], None] | None = None,
    ) -> None:
        """`leave` ends this process at once, whatever it is in; None where others work in it too (threads, solo)."""
        self._settings = settings
        self._registry = registry
        self._seat = seat
        self._shutdown = shutdown
        self._sink = sink
        self._connections = Connections(
            settings.session_url, lease_seconds=settings.lease_seconds, application=f"tenure attempt {holder.pid}"
        )
        self._narrator = Narrator(settings.session_url, holder.pid)
        self._control = Control(seat, shutdown, self._connections, leave)
        self._control.start()
        self._hot = Hotline(settings, registry.claimable, holder, shutdown)
        self._ending = Ending(self._hot)
        self._advancer = Advancer(settings.session_url, application=f"tenure advance {holder.pid}")
        self._log = structlog.get_logger("tenure.executor")
        self._leaving: SystemExit | None = None
        self._outside: set[int] = set()
        self._tiny = [name for spec in registry.specs if spec.tiny for name in spec.names]

    def run(self, task_id: UUID | str) -> int:
        """Claim this task and run on from it; how many tasks were run. 0: nothing to claim, acknowledge and forget."""
        if not self._shutdown.is_running():
            self._hot.decline(task_id)
            return 0
        self._control.busy(True)
        try:
            # A cold shutdown raises in the body only: anywhere else what is in hand would be left to recovery.
            with signals_masked() as self._outside:
                return self._run_from(task_id)
        except BaseException as error:
            self._ending.rescue(error)
            raise
        finally:
            self._control.busy(False)
            self._seat.release()  # a token left standing there would be renewed for ever

    def _run_from(self, task_id: UUID | str) -> int:
        first = self._hot.claim(task_id)
        got = [first] if first else []
        count, end = 0, time.monotonic() + self._settings.run_on_seconds
        while got:
            ran = self._run_all(got)
            count += len(got)
            left = self._settings.run_on_tasks - count
            last = not self._shutdown.is_running() or left <= 0 or time.monotonic() >= end or self._leaving is not None
            # A lease that was not renewed: nobody would renew the next one either.
            last = last or any(one.how is outcome.LOST for one in ran)
            got = self._settle(ran, None if last else self._run_on(got[-1], ran, left))
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            raise leaving  # a signal to this process asked it to leave; its task's end is written
        return count

    def _run_on(self, claimed: Claimed, ran: list[Ran], left: int) -> RunOn:
        spec = self._registry.spec(claimed.kind)
        if spec.tiny and all(one.how is outcome.SUCCEEDED for one in ran):
            return RunOn(spec.queue, self._tiny, min(BATCH, left))
        return RunOn(spec.queue, self._registry.claimable)

    def _run_all(self, got: list[Claimed]) -> list[Ran]:
        ran: list[Ran] = []
        trusted = self._hot.trusted_until
        began = time.monotonic()
        for claimed in got:
            # One slow body holds up a batch, not two: what is done is settled while its lease is young.
            slow = ran and time.monotonic() - began > BATCH_SECONDS
            if slow or not self._shutdown.is_running() or self._leaving is not None:
                ran.append(Ran(claimed, outcome.RELEASE, None, None, 0.0))  # claimed, but its body never began
                continue
            spec = self._registry.spec(claimed.kind)
            if not spec.accepts(claimed.params_version):
                how = outcome.unknown_version(spec, claimed.params_version)
                self._log.warning(how.error_code, task_id=str(claimed.lease.task_id), kind=claimed.kind)
                ran.append(Ran(claimed, how, None, None, 0.0))
                continue
            drain = spec.drain if spec.on_shutdown == "finish" else 0.0
            self._seat.hold(
                claimed.lease.token,
                trusted,
                stop_within=spec.stop_within,
                drain=drain,
                task_id=claimed.lease.task_id,
                seconds_left=claimed.seconds_left,
            )
            self._sink.started(claimed)
            ran.append(self._run_one(claimed))
        return ran

    def _run_one(self, claimed: Claimed) -> Ran:
        kind = self._registry.kind(claimed.kind)
        attempt = Attempt(
            claimed,
            kind.spec,
            session=self._hot.session,
            connections=self._connections,
            seat=self._seat,
            shutdown=self._shutdown,
            narrator=self._narrator,
        )
        began = time.monotonic()
        result: str | None = None
        self._control.watch(attempt)
        try:
            with signals_let_in(self._outside):
                answer = kind.body(attempt, kind.spec.stored(claimed.params, claimed.params_version))
            result = outcome.encode_result(answer, self._settings.result_bytes)
            how = self._of_return(attempt)
        except BaseException as error:
            self._leaving = error if isinstance(error, SystemExit) and outcome.by_signal(error) else self._leaving
            how = self._of_error(error, attempt, claimed)
        finally:
            self._control.watch(None)
            attempt.close()
        summary = None if attempt.summary is None else storable(text_of(attempt.summary))
        return Ran(claimed, how, result, summary, time.monotonic() - began)

    def _of_return(self, attempt: Attempt) -> Ended:
        """A task that has no say to ask succeeds; that is nearly every task, and costs it nothing."""
        return outcome.DECIDE if attempt.has_a_say else outcome.SUCCEEDED

    def _of_error(self, error: BaseException, attempt: Attempt, claimed: Claimed) -> Ended:
        if not self._seat.trusted():
            return outcome.LOST
        if not isinstance(error, LeaseLost | Cancelled | DeadlineExceeded) and (stop := attempt.pending()):
            error = stop  # cancelled SQL and the like: what the stop did, not a fault of the body
        gone = self._connections.lost or self._hot.broken
        if gone and not isinstance(error, Stop) and outcome.of_database(error):
            return outcome.DISCONNECTED
        how = outcome.of_exception(error, attempt.spec, claimed)
        meant = isinstance(error, Stop) or expected(error) or outcome.by_signal(error)
        if how.error_code is not None and not meant:
            fields: dict[str, Any] = {"task_id": str(attempt.task_id), "kind": attempt.spec.name}
            self._log.error("attempt_failed", **fields, error=type(error).__name__, frames=stack(error))
        return how

    def _settle(self, ran: list[Ran], run_on: RunOn | None) -> list[Claimed]:
        """Write every end; successes together with the claim of the next."""
        good = [one for one in ran if one.how is outcome.SUCCEEDED]
        for one in ran:
            if one.how is not outcome.SUCCEEDED:
                self._write(one)
        if not good:
            return self._hot.claim_next(run_on) if run_on else []
        try:
            accepted, got = self._hot.succeed(
                [one.claimed for one in good], [one.result for one in good], [one.summary for one in good], run_on
            )
        except (psycopg2.Error, ValueError) as error:
            self._log.error("end_not_storable", error=type(error).__name__, tasks=len(good))
            for one in good:  # one of a batch cannot be stored: its neighbours must not pay for it
                self._write(one)
            return self._hot.claim_next(run_on) if run_on else []
        for one in good:
            if one.claimed.lease.token in accepted:
                self._ended(one, one.how)
        return got

    def _write(self, one: Ran) -> None:
        written = self._ending.write(one.claimed, one.how, one.result, one.summary)
        if written is not None:
            self._ended(one, written)

    def _ended(self, one: Ran, how: Ended) -> None:
        """After the commit: show it, and move its execution on, if it is a step of one."""
        self._sink.ended(one.claimed, how, one.seconds)
        if one.claimed.execution_id is not None and how.state in TERMINAL:
            self._advancer.advance([one.claimed.execution_id])

    def close(self) -> None:
        self._control.close()
        self._hot.close()
        self._advancer.close()
        self._connections.dispose()
        self._narrator.close()
