"""Runs bare Celery: the same pool, late ack, prefetch 1, events on, no result backend."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contenders.celery_app import NOTE, QUEUE, app, noop
from bench.place import Place
from bench.processes import process, until
from bench.worker import FLAGS

BROKER = 2


@dataclass(frozen=True)
class BareCelery:
    """The sending side, and the file in which the bodies note their start."""

    place: Place
    broker: str
    notes: Path

    def send(self, n: int) -> None:
        """The way an application sends: one `apply_async` each, over one connection."""
        with app.producer_pool.acquire(block=True) as producer:
            for index in range(n):
                noop.apply_async((index,), producer=producer)

    def send_one(self, index: int) -> None:
        noop.apply_async((index,))

    def started(self) -> dict[int, float]:
        """Time of day at which each task's body ran, by index."""
        return dict(NOTE.iter_unpack(self.notes.read_bytes())) if self.notes.exists() else {}

    def wait(self, n: int) -> dict[int, float]:
        size = n * NOTE.size
        until(lambda: self.notes.exists() and self.notes.stat().st_size >= size, seconds=120, what="bare Celery")
        return self.started()

    def forget(self) -> None:
        """An empty file, kept in place: the children hold it open."""
        if self.notes.exists():
            os.truncate(self.notes, 0)

    @contextmanager
    def worker(self) -> Iterator[None]:
        environment = {"BENCH_BROKER_URL": self.broker, "BENCH_NOTES": str(self.notes)}
        command = ["-m", "celery", "-A", "bench.contenders.celery_app", "worker", *FLAGS, "-n", "bare@%h", "-Q", QUEUE]
        with process("bare-celery", [*command, "-l", "WARNING"], logs=self.place.home, environment=environment):
            yield

    def published_while_running(self, n: int) -> float:
        """Tasks/s from the first send to the last body, the sender beside the worker. Needs a running worker."""
        self.forget()
        began = time.time()
        self.send(n)
        return n / (max(self.wait(n).values()) - began)

    def queue_filled_beforehand(self, n: int) -> float:
        """Tasks/s between the first and the last body of a worker that starts with a full queue."""
        self.forget()
        self.send(n)
        with self.worker():
            starts = self.wait(n).values()
        return (n - 1) / (max(starts) - min(starts))


def bare_celery(place: Place) -> BareCelery:
    """A sender. The app and its connections are one per process, so its broker is always the same, emptied."""
    broker = place.broker(BROKER)
    app.conf.broker_url = broker
    return BareCelery(place, broker, place.home / "bare-celery.notes")
