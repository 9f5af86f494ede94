"""Celery's event stream as Flower hears it: a Receiver in a thread, on the worker's broker."""

import threading
from collections import defaultdict
from typing import Any, Self

from celery import Celery


class CeleryEvents:
    """Collects every event from the moment the block is entered. `of` answers the task events of one task, in order."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("observer", broker=broker_url, set_as_current=False)
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="celery-events")

    def _run(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self._take})
            with receiver.consumer_context() as (listening, _, _):
                self._listening.set()
                while not self._stop.is_set():
                    try:
                        listening.drain_events(timeout=0.2)
                    except TimeoutError:
                        continue

    def _take(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._events.append(event)

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._events)

    def by_task(self) -> dict[str, list[str]]:
        """{task id: its event types, in the order of arrival}"""
        found: dict[str, list[str]] = defaultdict(list)
        for event in self.all():
            if event["type"].startswith("task-"):
                found[event["uuid"]].append(event["type"])
        return dict(found)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10), "the observer does not hear the broker"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._app.close()
