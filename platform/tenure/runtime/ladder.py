"""The last rungs of the escalation ladder, in the worker's main process: end a child that did not stop, then ourselves.

Needs no database and no broker: it must work when those are what hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from tenure.model.stops import Cause
from tenure.runtime import times
from tenure.runtime.channel import StopChannel

PACE = 0.1  # s between looks at the slots: a few words of memory
CLOSE_PACE = 0.02  # s, while somebody has been asked to stop and has not


@dataclass
class _Asked:
    cause: Cause
    at: float
    ended: bool = False


class Ladder:
    """Stepped by `run_once`. `end_child` kills one pid of the pool, or answers False where it cannot (threads); `give_up`
    is told of (slot, token, pid) that is over: killed, or never to be heard again. `leave` ends this process when
    T_FINAL has passed since the stop."""

    name = "ladder"

    def __init__(
        self,
        channel: StopChannel,
        *,
        end_child: Callable[[int], bool],
        give_up: Callable[[int, int, int], None],
        stopped_at: Callable[[], float | None],
        leave: Callable[[], None],
        rung: Callable[[str], None] | None = None,
    ) -> None:
        """`rung` is told the cause of each stop that is first asked for here."""
        self._rung = rung or (lambda _: None)
        self._channel = channel
        self._end_child = end_child
        self._give_up = give_up
        self._stopped_at = stopped_at
        self._leave = leave
        self._asked: dict[int, _Asked] = {}
        self._log = structlog.get_logger("tenure.ladder")

    def run_once(self) -> float:
        now = time.monotonic()
        stopped_at = self._stopped_at()
        if stopped_at is not None and now - stopped_at >= times.T_FINAL:
            self._leave()
        seen = set()
        for slot, token, pid in self._channel.slots():
            cause = self._channel.asked(slot, token)
            if cause is None and stopped_at is not None and self._channel.ask(slot, token, Cause.SHUTDOWN):
                cause = Cause.SHUTDOWN  # claimed while the others were being asked
            if cause is not Cause.DEADLINE and self._channel.overdue(slot):
                self._ring(slot, token)
                cause = self._channel.asked(slot, token)
            if cause is None:
                continue
            seen.add(token)
            asked = self._asked.setdefault(token, _Asked(cause, now))
            if cause.rank < asked.cause.rank:
                asked.cause = cause
            if asked.ended:
                continue
            # It left by itself: whoever waits for the end is not to wait for the keeper's next look.
            if not self._channel.alive(slot, token, pid):
                asked.ended = True
                self._give_up(slot, token, pid)
            elif now - asked.at >= self._bound(slot, asked.cause):
                asked.ended = self._end(slot, token, pid, asked)
        self._asked = {token: asked for token, asked in self._asked.items() if token in seen}
        waited_for = any(not asked.ended for asked in self._asked.values())
        return CLOSE_PACE if waited_for else PACE

    def _ring(self, slot: int, token: int) -> None:
        """The deadline has passed by the claim's word; the keeper's own look, a second apart, covers what is missed."""
        before = self._channel.asked(slot, token)
        self._channel.ask(slot, token, Cause.DEADLINE)
        if before is None:
            self._rung(Cause.DEADLINE.name.lower())
            task_id = str(self._channel.task(slot))
            self._log.info("stop_asked", task_id=task_id, cause=Cause.DEADLINE.name.lower())

    def _bound(self, slot: int, cause: Cause) -> float:
        """Seconds this cause leaves the child, counted from when it was asked."""
        stop_within, drain = self._channel.patience(slot)
        if cause is Cause.SHUTDOWN:
            return min(times.T_MAIN_SHUTDOWN + drain, times.T_SETTLED)
        return stop_within + times.MAIN_AFTER_CHILD

    def _end(self, slot: int, token: int, pid: int, asked: _Asked) -> bool:
        if self._channel.held(slot) != (token, pid):
            return True  # it moved on in this very moment
        said = {"pid": pid, "task_id": str(self._channel.task(slot)), "cause": asked.cause.name.lower()}
        ended = self._end_child(pid)
        if ended:
            self._log.warning("child_ended", **said)
        else:
            self._log.warning("did_not_stop", **said)
        self._give_up(slot, token, pid)
        return True

    def close(self) -> None:
        """Nothing is held."""
