"""Slots in a pool of threads: one each, kept until the thread ends, whatever it is stuck in."""

import threading
from typing import Any

import pytest

from tenure.runtime.channel import StopChannel
from tenure.runtime.shutdown import Shutdown
from tenure.settings import Settings
from tenure_workers.child import Children, Inherited
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.submitted import Tasks

SLOTS = 8


@pytest.fixture
def children() -> Children:
    nothing: Any = None
    return Children(Inherited(nothing, nothing, nothing, StopChannel(SLOTS), nothing, nothing, "node"))


class Threads:
    """Threads that each take a slot and then stay until they are let go."""

    def __init__(self, children: Children, count: int) -> None:
        self.taken: list[int] = []
        self._go = threading.Event()
        together = threading.Barrier(count + 1)

        def body() -> None:
            self.taken.append(children._take())
            together.wait()
            self._go.wait()

        self._threads = [threading.Thread(target=body) for _ in range(count)]
        for thread in self._threads:
            thread.start()
        together.wait()

    def end(self) -> None:
        self._go.set()
        for thread in self._threads:
            thread.join()


def test_two_live_threads_never_have_the_same_slot(children: Children) -> None:
    threads = Threads(children, SLOTS)
    try:
        assert sorted(threads.taken) == list(range(SLOTS))
    finally:
        threads.end()


def test_a_slot_is_free_again_only_when_its_thread_has_ended(children: Children) -> None:
    staying, leaving = Threads(children, SLOTS - 2), Threads(children, 2)
    with pytest.raises(RuntimeError, match="held by a live thread"):
        children._take()
    leaving.end()
    again = Threads(children, 2)
    assert sorted(again.taken) == sorted(leaving.taken)
    again.end()
    staying.end()


def test_what_a_place_without_a_slot_is_handed_is_for_another_one(database: Database) -> None:
    tasks = Tasks(database.engine)
    (task_id,) = tasks.submit(ledger)
    tasks.rows("delete from task_hints returning 1")  # as the dispatcher does when it has sent the message
    shutdown = Shutdown()
    shutdown.stop()  # it would stay out for a second
    nothing: Any = None
    settings = Settings(database_url=database.url)  # type: ignore[arg-type]
    children = Children(Inherited(nothing, settings, nothing, StopChannel(1), shutdown.watcher(), nothing, "node"))
    threads = Threads(children, 1)
    try:
        with pytest.raises(RuntimeError, match="held by a live thread"):
            children.run(str(task_id))
    finally:
        threads.end()
    assert tasks.one("select task_id from task_hints") == task_id
