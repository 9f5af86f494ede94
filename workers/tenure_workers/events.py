"""Celery task events of one child, in batches: Flower's view. A courtesy: PostgreSQL has the truth, nothing waits for it."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any

import structlog
from celery import Celery

from tenure.model.records import Claimed, Ended
from tenure.runtime.masking import signals_masked

FLUSH_SECONDS = 0.2
BATCH = 100
FLUSH_AT_EXIT_SECONDS = 1.0
_FLUSH = "flush"  # no event: whoever put it waits until all before it are sent
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
        self._queue: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue(BACKLOG)
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
        sent = threading.Event()
        self._put(_FLUSH, sent=sent)
        return sent.wait(seconds)

    def _put(self, type: str, **fields: Any) -> None:
        try:
            self._queue.put_nowait((type, fields))
        except queue.Full:
            return  # the broker is away: these are only pictures

    def _run(self) -> None:
        dispatcher: Any = None
        while True:
            batch = self._gather()
            try:
                if dispatcher is None:
                    dispatcher = self._dispatcher()
                for type, fields in batch:
                    if type != _FLUSH:
                        dispatcher.send(type, **fields)
                dispatcher.flush()
            except Exception as error:
                # Whatever the transport raises: the next batch tries a new connection.
                self._log.info("events_dropped", error=type_name(error), count=len(batch))
                dispatcher = None
            for type, fields in batch:
                if type == _FLUSH:
                    fields["sent"].set()

    def _gather(self) -> list[tuple[str, dict[str, Any]]]:
        """The next events. A short wait gathers what a run-on makes in between: one PUBLISH instead of a hundred."""
        batch = [self._queue.get()]
        end = time.monotonic() + FLUSH_SECONDS
        while len(batch) < BATCH and batch[-1][0] != _FLUSH and (left := end - time.monotonic()) > 0:
            try:
                batch.append(self._queue.get(timeout=left))
            except queue.Empty:
                break
        return batch

    def _dispatcher(self) -> Any:
        connection = self._app.connection_for_write()
        return self._app.events.Dispatcher(
            connection, hostname=self._hostname, buffer_group={"task"}, buffer_limit=BATCH + 1
        )


def type_name(error: BaseException) -> str:
    return type(error).__name__
