"""The pool's side: one executor per thread of a process, made at its first task, never inherited over a fork."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from billiard import current_process
from sqlalchemy import text

from tenure.model.records import Holder
from tenure.registry import Registry
from tenure.runtime.channel import StopChannel
from tenure.runtime.executor import Executor
from tenure.runtime.previous import settle_child
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.sessions import Sessions
from tenure.store.transitions.claim import HINT_BACK
from tenure_celery.app import TenureCelery
from tenure_celery.foreign import Foreign
from tenure_workers.adopting import Adopter
from tenure_workers.events import Events

_STEP_ASIDE = 1.0  # s: else the same hint would come to the same place twenty times a second


@dataclass(frozen=True)
class Inherited:
    """What a child uses of what its parent made: shared memory, pipes and plain values."""

    app: TenureCelery
    settings: Settings
    registry: Registry
    channel: StopChannel
    watcher: Watcher
    boot_id: UUID
    hostname: str


class _Here(threading.local):
    pid: int | None = None
    executor: Executor | None = None


class Children:
    """Hands each pool thread its executor. Slots: the pool's index on prefork, one that no live thread has on threads."""

    def __init__(self, inherited: Inherited) -> None:
        self._inherited = inherited
        self._here = _Here()
        self._taken: dict[int, threading.Thread] = {}
        self._events: tuple[int, Events] | None = None
        self._lock = threading.Lock()

    @cached_property
    def _adopter(self) -> Adopter:
        one = self._inherited
        return Adopter(one.settings, one.registry, one.watcher, larger_first=not one.app.inverts_priorities)

    def adopt(self, name: str, message: Foreign) -> None:
        """Make a foreign message's row, then do what a hint asks for."""
        task_id = self._adopter.adopt(name, message)
        if task_id is not None:
            self.run(str(task_id))

    def run(self, task_id: str) -> None:
        here = self._here
        if here.executor is None or here.pid != os.getpid():
            try:
                here.executor, here.pid = self._executor(), os.getpid()
            except Exception:
                self._decline(task_id)
                raise
        here.executor.run(task_id)

    def _decline(self, task_id: str) -> None:
        """Nothing can be run here (a slot that does not exist): the hint goes back, and this place stays out a moment."""
        sessions = Sessions(self._inherited.settings.session_url, application="tenure decline")
        try:
            with sessions.transaction() as connection:
                connection.execute(text(HINT_BACK), {"id": UUID(task_id)})
        finally:
            sessions.dispose()
        self._inherited.watcher.sleep(_STEP_ASIDE)

    def _executor(self) -> Executor:
        one = self._inherited
        index = getattr(current_process(), "index", None)
        # Threads share a pid, and a holder must be one alone: else one that lost an answer hands back its neighbours'.
        pid = threading.get_native_id() if index is None else os.getpid()
        holder = Holder(one.boot_id, pid)
        # Only a pool's own process may be left; in a threads or solo pool others work in it.
        leave = None if index is None else self._leave
        slot = self._take() if index is None else int(index)
        token, predecessor = one.channel.held(slot)
        if predecessor not in (0, os.getpid()) and index is not None:
            cause = one.channel.asked(slot, token) if token else None
            settle_child(one.settings, one.registry, Holder(one.boot_id, predecessor), token, cause)
        seat = one.channel.seat(slot, pid)
        return Executor(one.settings, one.registry, holder, seat, one.watcher, self._sink(), leave=leave)

    def _take(self) -> int:
        """A slot for this thread, until it ends: a thread that does not stop keeps its own."""
        with self._lock:
            slot = next((n for n in range(len(self._inherited.channel)) if not self._living(n)), None)
            if slot is None:
                raise RuntimeError("every slot of this worker is held by a live thread")
            self._taken[slot] = threading.current_thread()
            return slot

    def _living(self, slot: int) -> bool:
        thread = self._taken.get(slot)
        return thread is not None and thread.is_alive()

    def _leave(self) -> None:
        self.flush()
        os._exit(0)

    def flush(self) -> None:
        """Send the events that this process still has."""
        if self._events is not None and self._events[0] == os.getpid():
            self._events[1].flush()

    def _sink(self) -> Events:
        with self._lock:
            if self._events is None or self._events[0] != os.getpid():
                self._events = (os.getpid(), Events(self._inherited.app, self._inherited.hostname))
            return self._events[1]


_children: list[Children] = []  # set once by lifecycle before the pool starts; children inherit it by fork


def install(children: Children) -> None:
    _children[:] = [children]


def flush(**_: object) -> None:
    """At the end of a pool process, or of the main one: send the events it still has."""
    for children in _children:
        children.flush()


def run(task_id: str) -> None:
    """Run the task of this id, and run on from it."""
    _here().run(task_id)


def adopt(name: str, message: Foreign) -> None:
    """Make the row of a foreign message, run it, and run on from it."""
    _here().adopt(name, message)


def _here() -> Children:
    if not _children:
        raise RuntimeError("this task must run in a Tenure worker: start it with `tenure worker`")
    return _children[0]
