"""Bare Celery with the very settings of Tenure's own app. Its no-op notes when it started; there is no record else."""

from __future__ import annotations

import os
import struct
import time

from celery import Celery
from kombu import Queue

from tenure_celery.conf import settings_of

QUEUE = "bare"
NOTE = struct.Struct("<qd")  # index, time of day

app = Celery("bare", broker=os.environ.get("BENCH_BROKER_URL"))
app.conf.update(settings_of([QUEUE], QUEUE), task_queues=[Queue(QUEUE)])
_notes: list[int] = []


@app.task(name="bare.noop")  # type: ignore[untyped-decorator]
def noop(index: int = 0) -> None:
    """16 bytes appended to a file: some microseconds, the least that tells when it ran."""
    if not _notes:
        _notes.append(os.open(os.environ["BENCH_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    os.write(_notes[0], NOTE.pack(index, time.time()))
