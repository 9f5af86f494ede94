"""A real Tenure worker, as `tenure worker` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from bench.place import Place, engine
from bench.processes import process, until

SLOTS = 2
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
    command = ["-m", "celery", "-A", "tenure_workers", "worker", *FLAGS, "-n", "bench@%h", "-Q", queues]
    here = engine(database)

    def ready() -> bool:
        with here.connect() as connection:
            return bool(connection.execute(_READY).scalar_one())

    try:
        with process("tenure-worker", command, logs=place.home, environment=environment):
            until(ready, seconds=40, what="the Tenure worker's start")
            yield here
    finally:
        here.dispose()
