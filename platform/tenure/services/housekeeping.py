"""Housekeeping: what the clock alone decides, step by step, also when everything is busy. Any number of them.

A quiet round writes nothing, and a step that fails keeps none of the others from running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from tenure import activities
from tenure.model.initiators import SYSTEM
from tenure.settings import Settings
from tenure.store import housekeeping, phases, settings
from tenure.store.connect import engine_for
from tenure.store.transitions import due

PACE = 60.0  # s


@dataclass(frozen=True)
class Step:
    """One thing to keep in order: in a transaction of its own, answering how much it did."""

    name: str
    run: Callable[[Connection], int]


def _fail_unknown(connection: Connection) -> int:
    """Tasks of kinds that no worker has known for days: they end with that as their reason."""
    days = settings.value(connection, settings.UNKNOWN_KIND)
    return len(due.expire_unknown(connection, days=days)) if days else 0


STEPS = (
    Step("partitions", housekeeping.make_partitions),
    Step("unseen_workers", housekeeping.forget_unseen),
    Step("unknown_kinds", _fail_unknown),
    Step("past_turns", housekeeping.forget_turns),
    Step("phases_left_open", phases.close_left_open),
)


def _report(connection: Connection, step: Step, done: int) -> None:
    """An activity for what was done, in its transaction; a quiet step leaves none."""
    target = activities.Target("housekeeping", name=step.name)
    one = activities.start(connection, initiator=SYSTEM, target=target, actor="housekeeping")
    activities.count(connection, one, kept_in_order=done)
    activities.end(connection, one)


class Housekeeping:
    """One round runs every step once, each on its own connection."""

    name = "housekeeping"

    def __init__(self, settings: Settings, steps: Sequence[Step] = STEPS, *, options: str = "") -> None:
        self._steps = steps
        self._engine = engine_for(settings.session_url, application="tenure housekeeping", options=options)
        self._log = structlog.get_logger("tenure.housekeeping")

    def run_once(self) -> float:
        for step in self._steps:
            try:
                with self._engine.begin() as connection:
                    done = step.run(connection)
                    if done:
                        _report(connection, step, done)
            except Exception as error:
                # Whatever a step raises: the next round tries again.
                self._log.warning("step_failed", step=step.name, error=type(error).__name__)
                continue
            if done:
                self._log.info("kept_in_order", step=step.name, done=done)
        return PACE

    def close(self) -> None:
        self._engine.dispose()
