"""At a start: what earlier boots of this node, or an earlier child in this slot, held is settled at once.

Only what is known to be gone; expiry covers the rest.
"""

from __future__ import annotations

from uuid import UUID

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from tenure.model.records import Holder
from tenure.runtime.instance import gone
from tenure.settings import Settings
from tenure.store import workers
from tenure.store.connect import engine_for
from tenure.store.transitions.recover import recover_boot, recover_process


def settle_previous(settings: Settings, node: str, boot_id: UUID) -> int:
    """Settle by the order of `recover`; cancel requests are acknowledged by it. Answers how many tasks it settled."""
    engine = engine_for(settings.session_url, application="tenure start")
    with engine.begin() as connection:
        dead = [boot for boot, instance in workers.holding(connection, node, boot_id) if gone(instance)]
    return sum(_settle(engine, boot, settings.crash_bound) for boot in dead)


def _settle(engine: Engine, boot: UUID, crash_bound: int) -> int:
    log, count = structlog.get_logger("tenure.start"), 0
    while True:
        with engine.begin() as connection:
            batch = recover_boot(connection, boot, crash_bound=crash_bound)
            if not batch:
                workers.ended(connection, boot)
                return count
        count += len(batch)
        for task_id, state, outcome in batch:
            log.warning("previous_boot_settled", task_id=str(task_id), state=state, outcome=outcome)


def settle_child(settings: Settings, dead: Holder) -> None:
    """Settle what a dead child of this boot held: its successor takes the slot, where the keeper looks for dead ones."""
    log = structlog.get_logger("tenure.start")
    engine = engine_for(settings.session_url, application="tenure start")
    try:
        with engine.begin() as connection:
            settled = recover_process(connection, dead.worker, dead.pid, crash_bound=settings.crash_bound)
    except DBAPIError as error:
        log.info("predecessor_left_to_expiry", pid=dead.pid, error=type(error).__name__)
        return
    for task_id, state, outcome in settled:
        log.warning("child_died", pid=dead.pid, task_id=str(task_id), state=state, outcome=outcome)
