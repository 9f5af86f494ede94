"""What the figures hold for: machine, versions, settings. Read from the running servers, not assumed."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import redis
from sqlalchemy import text

from bench.place import Place
from bench.worker import SLOTS
from tenure.settings import Settings

_SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")
_PACKAGES = (
    "tenure",
    "celery",
    "kombu",
    "redis",
    "hiredis",
    "sqlalchemy",
    "psycopg2-binary",
    "procrastinate",
    "psycopg",
)


def conditions(place: Place) -> dict[str, Any]:
    """Flat names and values, in the order in which they are shown."""
    with place.engine().connect() as connection:
        postgres = {f"postgres {name}": connection.execute(text(f"show {name}")).scalar_one() for name in _SHOWN}
    with redis.Redis.from_url(place.servers.broker_url) as client:
        said = {**client.info("server"), **client.config_get("append*")}
    defaults = Settings()
    return {
        "cores": os.cpu_count(),
        "load average before": " ".join(f"{one:.2f}" for one in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        **postgres,
        "broker": f"{said.get('server_name', 'redis')} {said.get('valkey_version', said['redis_version'])}",
        "broker appendonly": said["appendonly"],
        "broker appendfsync": said["appendfsync"],
        "lease": f"{defaults.lease_seconds:g} s, renewed every {defaults.renew_seconds:g} s",
        "worker": f"prefork, {SLOTS} children, late ack, prefetch 1, events on",
        "run-on": f"{defaults.run_on_tasks} tasks or {defaults.run_on_seconds:g} s per message",
    }
