"""A real Tenure worker: `tenure worker`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from sqlalchemy import Engine, text

from bench.place import Place, engine
from bench.processes import BenchError, process, until

SLOTS = 2
# What `tenure worker` tells Celery, for those who are compared with it.
FLAGS = ["-P", "prefork", "-c", str(SLOTS), "-O", "fair", "--without-mingle", "--without-gossip"]
_READY = text("select count(*) from workers where ended_at is null")


@contextmanager
def worker(place: Place, database: str, broker: str, *, queues: str) -> Iterator[Engine]:
    """An engine on its database, once the worker is ready."""
    environment = {
        "TENURE_DATABASE_URL": database,
        "TENURE_BROKER_URL": broker,
        "TENURE_KINDS": "bench.kinds",
        "TENURE_HOME": str(place.home / "worker"),
    }
    command = [str(Path(sys.executable).with_name("tenure")), "worker", "--concurrency", str(SLOTS), "--queues", queues]
    here = engine(database)

    def ready(running: Popen[bytes]) -> bool:
        if running.poll() is not None:
            raise BenchError("the Tenure worker did not start")
        with here.connect() as connection:
            return bool(connection.execute(_READY).scalar_one())

    try:
        with process("tenure-worker", command, logs=place.home, environment=environment) as running:
            until(lambda: ready(running), seconds=40, what="the Tenure worker's start")
            yield here
    finally:
        here.dispose()
