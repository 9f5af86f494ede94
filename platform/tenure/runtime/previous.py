"""At a start: what the kinds declare is written down, and what earlier boots of this node, or an earlier child in this
slot, held is settled at once.

Only what is known to be gone; expiry covers the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from tenure.model.kinds import KindSpec
from tenure.model.records import Holder
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime.forced import force_end
from tenure.runtime.instance import gone
from tenure.settings import Settings
from tenure.store import limits, workers
from tenure.store.connect import engine_for, refused
from tenure.store.transitions.recover import recover_boot, recover_process


def settle_previous(settings: Settings, node: str, boot_id: UUID) -> list[str]:
    """Settle by the order of `recover`; cancel requests are acknowledged by it. Answers the fate of each task settled.

    Raises DatabaseUnavailable when the database goes away meanwhile.
    """
    engine = engine_for(settings.session_url, application="tenure start")
    try:
        with engine.begin() as connection:
            dead = [boot for boot, instance in workers.holding(connection, node, boot_id) if gone(instance)]
        return [fate for boot in dead for fate in _settle(engine, boot, settings.crash_bound)]
    except OperationalError as error:
        raise refused(error) from None


def declare_limits(settings: Settings, specs: Sequence[KindSpec]) -> None:
    """Write down what the kinds installed here declare of how many may run at once: claims read it there.

    Raises DatabaseUnavailable when the database goes away meanwhile.
    """
    engine = engine_for(settings.session_url, application="tenure start")
    try:
        with engine.begin() as connection:
            limits.declare(connection, specs)
    except OperationalError as error:
        raise refused(error) from None


def _settle(engine: Engine, boot: UUID, crash_bound: int) -> list[str]:
    log = structlog.get_logger("tenure.start")
    fates: list[str] = []
    while True:
        with engine.begin() as connection:
            batch = recover_boot(connection, boot, crash_bound=crash_bound)
            if not batch:
                workers.ended(connection, boot)
                return fates
        fates += [outcome or state for _, state, outcome in batch]
        for task_id, state, outcome in batch:
            log.warning("previous_boot_settled", task_id=str(task_id), state=state, outcome=outcome)


def settle_child(settings: Settings, registry: Registry, dead: Holder, token: int, cause: Cause | None) -> None:
    """Settle what a dead child of this boot held: its successor takes the slot, where the keeper looks for dead ones.

    `token` and `cause`: what the slot says it held, and for what that was asked to stop.
    """
    log = structlog.get_logger("tenure.start")
    engine = engine_for(settings.session_url, application="tenure start")
    try:
        with engine.begin() as connection:
            done = force_end(connection, registry, dead, token, cause)
            settled = recover_process(connection, dead.worker, dead.pid, crash_bound=settings.crash_bound)
    except DBAPIError as error:
        log.info("predecessor_left_to_expiry", pid=dead.pid, error=type(error).__name__)
        return
    if done is not None:
        log.warning("forced", pid=dead.pid, **done.said())
    for task_id, state, outcome in settled:
        log.warning("child_died", pid=dead.pid, task_id=str(task_id), state=state, outcome=outcome)
