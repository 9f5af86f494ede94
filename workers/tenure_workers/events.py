"""Celery task events of one child, in batches: Flower's view. A courtesy: PostgreSQL has the truth, nothing waits for it."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any

import structlog
from celery import Celery

from tenure.model.records import Claimed, Ended
from tenure.runtime.masking import signals_masked

FLUSH_SECONDS = 0.2
BATCH = 100
FLUSH_AT_EXIT_SECONDS = 1.0
BACKLOG = 10_000  # events kept while the broker is away; beyond that the oldest picture is worth nothing

_TYPES = {
    "succeeded": "task-succeeded",
    "partially_succeeded": "task-succeeded",
    "failed": "task-failed",
    "cancelled": "task-revoked",
}


class Events:
    """Implements the executor's Sink. The sending thread is a daemon; `flush` gives it its last chance at exit."""

    def __init__(self, app: Celery, hostname: str) -> None:
        self._app = app
        self._hostname = hostname
        self._pid = os.getpid()
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=BACKLOG)
        self._wake = threading.Event()  # there is something to send
        self._now = threading.Event()  # send it without gathering more
        self._sent = threading.Event()
        self._log = structlog.get_logger("tenure.events")
        with signals_masked():  # signals are the body thread's
            threading.Thread(target=self._run, name="tenure-events", daemon=True).start()

    def started(self, claimed: Claimed) -> None:
        task_id = str(claimed.lease.task_id)
        now = time.time()
        self._put(
            "task-received",
            uuid=task_id,
            name=claimed.kind,
            args="()",
            kwargs="{}",
            retries=claimed.attempt - 1,
            root_id=task_id,
            timestamp=now,
        )
        self._put("task-started", uuid=task_id, timestamp=now)

    def ended(self, claimed: Claimed, how: Ended, seconds: float) -> None:
        task_id, now = str(claimed.lease.task_id), time.time()
        kind = _TYPES.get(how.state, "task-retried")
        if kind == "task-succeeded":
            self._put(kind, uuid=task_id, result="", runtime=seconds, timestamp=now)
        elif kind == "task-revoked":
            self._put(kind, uuid=task_id, terminated=False, signum=None, expired=False, timestamp=now)
        else:
            said = f"{how.outcome or how.verb}: {how.error_message or ''}".strip(": ")
            self._put(kind, uuid=task_id, exception=said, traceback="", timestamp=now)

    def flush(self, seconds: float = FLUSH_AT_EXIT_SECONDS) -> bool:
        """Wait until what was said so far is sent; False when the broker did not take it in time."""
        self._sent.clear()
        self._now.set()
        self._wake.set()
        return self._sent.wait(seconds)

    def _put(self, type: str, **fields: Any) -> None:
        self._waiting.append((type, fields))  # full: the broker is away, and the oldest falls out
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        dispatcher: Any = None
        while True:
            self._wake.wait()
            # One turn of this thread per interval, not per event: each would take the interpreter from the body thread.
            self._now.wait(FLUSH_SECONDS)
            # In this order a flush asked for meanwhile is either seen here or wakes the next turn.
            self._wake.clear()
            if asked := self._now.is_set():
                self._now.clear()
            for _ in range(0, len(self._waiting), BATCH):
                dispatcher = self._send(dispatcher)
            if asked:
                self._sent.set()

    def _send(self, dispatcher: Any) -> Any:
        """One PUBLISH of up to a batch; the dispatcher to go on with, None after a failure."""
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        try:
            dispatcher = dispatcher or self._dispatcher()
            for type, fields in batch:
                dispatcher.send(type, **fields)
            dispatcher.flush()
        except Exception as error:
            # Whatever the transport raises: the next batch tries a new connection.
            self._log.info("events_dropped", error=type_name(error), count=len(batch))
            return None
        return dispatcher

    def _dispatcher(self) -> Any:
        connection = self._app.connection_for_write()
        return self._app.events.Dispatcher(
            connection, hostname=self._hostname, buffer_group={"task"}, buffer_limit=BATCH + 1
        )


def type_name(error: BaseException) -> str:
    return type(error).__name__
