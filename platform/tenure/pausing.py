"""Pausing kinds and queues: what runs goes on, nothing new is claimed. In the caller's transaction."""

from __future__ import annotations

from sqlalchemy import Connection

from tenure import registry, settings
from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator
from tenure.store import backlog, pauses
from tenure.store.pauses import What


def pause(connection: Connection, what: What, name: str, *, initiator: Initiator, reason: str | None = None) -> bool:
    """Pause a kind or queue; False when it was paused already. Raises UsageError for a name nobody here knows."""
    require_known(connection, what, name)
    return pauses.pause(connection, what, name, by=str(initiator), reason=reason)


def resume(connection: Connection, what: What, name: str) -> bool:
    """Resume; False when it was not paused. Raises UsageError for a name nobody here knows."""
    resumed = pauses.resume(connection, what, name)
    if not resumed:
        require_known(connection, what, name)
    return resumed


def require_known(connection: Connection, what: What, name: str) -> None:
    installed = registry.load(settings.load().kind_packages)
    names = installed.names if what == "kind" else installed.queues
    if name not in names and not backlog.known(connection, what, name):
        raise UsageError(f"unknown {what} {shortened(name)!r}: known here are {', '.join(names) or 'none'}")
