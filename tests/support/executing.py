"""Runs tasks in the test's own process with the real executor: claim, body, fenced end."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.model.kinds import Kind
from tenure.model.records import Claimed, Ended, Holder
from tenure.registry import Registry
from tenure.runtime.channel import StopChannel
from tenure.runtime.executor import Executor
from tenure.runtime.shutdown import Shutdown
from tenure.settings import Settings
from tests.support.databases import Database


class _Nowhere:
    def started(self, claimed: Claimed) -> None:
        pass

    def ended(self, claimed: Claimed, how: Ended, seconds: float) -> None:
        pass


@contextmanager
def executor(database: Database, *kinds: Kind) -> Iterator[Executor]:
    """An executor that knows these kinds, and runs one task per call."""
    settings = Settings(database_url=database.url, run_on_tasks=1)
    holder, shutdown = Holder(uuid.uuid4(), os.getpid()), Shutdown()
    made = Executor(settings, Registry(kinds), holder, StopChannel(1).seat(0), shutdown.watcher(), _Nowhere())
    try:
        yield made
    finally:
        shutdown.stop()
        made.close()


def run(database: Database, task_id: uuid.UUID, *kinds: Kind) -> int:
    """Run one task to the end of its attempt. 0: there was nothing to claim."""
    with executor(database, *kinds) as made:
        return made.run(task_id)
