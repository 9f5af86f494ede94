"""What an attempt says of its phases, and the thread that writes it down: at most once a second, and never the body's worry.

Saying something costs a few stores. Whatever hinders the writing (a lock, a lost connection, a database that is away)
the body neither waits for it nor hears of it; the next write says all that has changed until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, create_engine

from tenure.model.faults import storable, text_of
from tenure.model.phases import LARGEST, Phase, Plan
from tenure.model.records import Claimed
from tenure.runtime.masking import signals_masked
from tenure.store import phases
from tenure.store.connect import session_arguments

PACE = 1.0  # s between two writes of one task
DECLARING = 1.0  # s a body waits at most for its declared phases to be stored
LAST = 0.2  # s the end of an attempt waits at most for its last write
_LOOK = 0.05  # s between looks for a stop while somebody waits

# What a crash of the server takes with it is written again: the connection is lost, too.
_OPTIONS = "-c lock_timeout=100 -c statement_timeout=1000 -c synchronous_commit=off"


class Story:
    """The phases of one attempt. `progress` is for its body's thread alone, and takes no lock."""

    def __init__(self, claimed: Claimed, narrator: Narrator, is_running: Callable[[], bool]) -> None:
        self._narrator = narrator
        self._plan: Plan | None = None
        self._now: Phase | None = None
        self.claimed = claimed
        self.is_running = is_running
        self.stored: Plan | None = None  # the plan that the database knows; none after a write that failed
        self.over = False  # nothing more can be written: the lease is lost
        self.troubled = False  # a write has failed: said once
        self.due = 0.0
        self.asked = self.served = 0  # writes that somebody waits for; those that were tried

    def declare(self, paths: Iterable[object]) -> None:
        """All phases to come; stored when this returns, unless the database is slow or there is a stop."""
        plan = Plan(paths)
        if plan.phases:
            with self._narrator.lock:
                self._plan, self._now = plan, None
            self._narrator.write(self, DECLARING)

    def open(self, path: object, total: int | None, message: str | None) -> Opened:
        with self._narrator.lock:
            if self._plan is None:
                self._plan = Plan()
            phase = self._now = self._plan.enter(path, time.monotonic())
        if total is not None or message is not None:
            self.progress(None, total, message)
        self._narrator.tell(self)
        return Opened(self, phase)

    def close(self, phase: Phase, *, failed: bool) -> None:
        with self._narrator.lock:
            assert self._plan is not None
            self._plan.leave(phase, time.monotonic(), failed=failed)
            self._now = self._plan.current

    def progress(self, done: int | None, total: int | None, message: str | None) -> None:
        phase = self._now or self._first()
        if done is not None:
            phase.done = done
        if total is not None:
            phase.total = total
        if message is not None:
            phase.message = message
        phase.changed = True

    def _first(self) -> Phase:
        with self._narrator.lock:
            self._plan = self._plan or Plan()
            phase = self._now = self._plan.enter(self._plan.first, time.monotonic())
        self._narrator.tell(self)
        return phase

    def end(self) -> None:
        """Write what has not been written, if that is quickly done; called before the attempt's end is."""
        if self._plan is not None:
            self._narrator.end(self)

    @property
    def changed(self) -> bool:
        plan = self._plan
        return plan is not None and (plan is not self.stored or any(phase.changed for phase in plan.phases))

    def take(self) -> Writing:
        """What has changed, to be written. Under the narrator's lock, while there is something."""
        assert self._plan is not None
        now, anew = time.monotonic(), self._plan is not self.stored
        rows: list[dict[str, Any]] = []
        for phase in self._plan.phases:
            if phase.changed or anew:
                phase.changed = False  # first: what is said from here on is written again
                rows.append(_row(phase, now))
        self.due = now + PACE
        return Writing(self, self._plan, rows, anew, self.asked)


@dataclass(frozen=True)
class Writing:
    """One write to be made; `anew`: the rows are all phases there are."""

    story: Story
    plan: Plan
    rows: list[dict[str, Any]]
    anew: bool
    serves: int


class Opened(AbstractContextManager["Opened"]):
    """A phase that was opened. As a context manager it closes the phase where the block ends; failed, by an exception."""

    def __init__(self, story: Story, phase: Phase) -> None:
        self._story = story
        self._phase = phase

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._story.close(self._phase, failed=kind is not None)


def _row(phase: Phase, now: float) -> dict[str, Any]:
    done, total = _count(phase.done), _count(phase.total)
    return {
        "position": phase.position,
        "path": phase.path,
        "status": phase.status,
        "done": done,
        # An estimate that was too low is raised.
        "total": max(total, done) if total and done is not None else total,
        "message": None if phase.message is None else storable(text_of(phase.message)),
        "started_ago": None if phase.opened is None else now - phase.opened,
        "ended_ago": None if phase.closed is None else now - phase.closed,
    }


def _count(value: Any) -> int | None:
    """A counter as it can be stored; None for what is no number."""
    try:
        return None if value is None else min(max(int(value), 0), LARGEST)
    except Exception:  # whatever a value of the body's does: here it would end the thread that writes for all its tasks
        return None


class Narrator:
    """One per executor. Its thread and its connection are made for the first attempt that has phases."""

    def __init__(self, url: str, pid: int) -> None:
        self._url = url
        self._application = f"tenure phases {pid}"
        self.lock = threading.Lock()
        self._news = threading.Condition(self.lock)
        self._written = threading.Condition(self.lock)
        self._story: Story | None = None
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._log = structlog.get_logger("tenure.phases")

    def tell(self, story: Story) -> None:
        """This story has begun, or goes on: it is written once it is due."""
        if self._story is not story:
            with self.lock:
                self._take_up(story)

    def write(self, story: Story, seconds: float) -> bool:
        """Write it now and wait until that was tried, at most so long, and with a stop at most LAST. Whether it was."""
        began = time.monotonic()
        with self.lock:
            story.asked += 1
            asked = story.asked
            self._take_up(story)
            while story.served < asked and not story.over:
                patience = seconds if story.is_running() else min(seconds, LAST)
                left = patience - (time.monotonic() - began)
                if left <= 0:
                    return False
                self._written.wait(min(left, _LOOK))
        return True

    def end(self, story: Story) -> None:
        """The last write. Tried again if it failed at once: a lost connection is found by the first write on it."""
        if story.changed and not story.over:
            until = time.monotonic() + LAST
            if self.write(story, LAST) and story.stored is None:
                self.write(story, until - time.monotonic())
        with self.lock:
            if self._story is story:
                self._story = None

    def close(self) -> None:
        """End the thread; one that hangs in the database is left to itself."""
        with self.lock:
            self._closed = True
            self._story = None
            self._news.notify()
        if self._thread is not None:
            self._thread.join(PACE)
            if not self._thread.is_alive() and self._engine is not None:
                self._engine.dispose()

    def _take_up(self, story: Story) -> None:
        self._story = story
        if self._thread is None:
            # Signals are the body thread's.
            with signals_masked():
                self._thread = threading.Thread(target=self._run, name="tenure-phases", daemon=True)
                self._thread.start()
        self._news.notify()

    def _run(self) -> None:
        while (writing := self._next()) is not None:
            stored = self._write(writing)
            with self.lock:
                writing.story.stored = writing.plan if stored else None
                writing.story.served = writing.serves
                self._written.notify_all()

    def _next(self) -> Writing | None:
        """What is to be written next, when it is due; None: nothing any more."""
        with self.lock:
            while not self._closed:
                story = self._story
                if story is None or story.over:
                    self._news.wait()
                    continue
                asked = story.asked > story.served
                left = 0.0 if asked else story.due - time.monotonic()
                if left > 0:
                    self._news.wait(left)
                elif story.changed:
                    return story.take()
                else:
                    story.served = story.asked
                    self._written.notify_all()
                    self._news.wait(PACE)  # the body does not say that it has said something: that would cost it
            return None

    def _write(self, writing: Writing) -> bool:
        """Whether it is stored. Whatever goes wrong is no concern of the run."""
        story = writing.story
        try:
            with self._connection() as connection:
                claimed = story.claimed
                story.over = not phases.write(
                    connection, claimed.lease, claimed.activity_id, writing.rows, anew=writing.anew
                )
        except Exception as error:
            self._log.warning(
                "phases_not_written", task_id=str(story.claimed.lease.task_id), error=type(error).__name__
            )
            return False
        return True

    def _connection(self) -> Connection:
        if self._engine is None:
            self._engine = create_engine(
                self._url,
                connect_args=session_arguments(self._application, _OPTIONS),
                isolation_level="AUTOCOMMIT",
                pool_size=1,
                max_overflow=0,
            )
        return self._engine.connect()
