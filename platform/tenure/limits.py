"""Limits of what runs at once, as an operator sets them: what runs goes on, claims from then on keep to them."""

from __future__ import annotations

from sqlalchemy import Connection

from tenure import pausing
from tenure.model import requests
from tenure.model.errors import UsageError
from tenure.model.records import Initiator
from tenure.store import limits as store
from tenure.store.limits import What

MOST = 2**31 - 1


def put(connection: Connection, what: What, name: str, at_most: int, *, initiator: Initiator) -> None:
    """At most so many at once: of all tasks ("global", name ''), of a kind, in a scope, or in each scope for a kind.

    0 lets nothing start. Raises UsageError for a kind nobody here knows and for numbers out of range.
    """
    _check(connection, what, name)
    if not 0 <= at_most <= MOST:
        raise UsageError(f"a limit is a whole number from 0 to {MOST}")
    store.put(connection, what, name, at_most, by=str(initiator))


def remove(connection: Connection, what: What, name: str) -> bool:
    """Forget a limit that was set; what the kind declares holds again. False: none was set."""
    removed = store.remove(connection, what, name)
    if not removed:
        _check(connection, what, name)
    return removed


def _check(connection: Connection, what: What, name: str) -> None:
    if what in ("kind", "each scope"):
        pausing.require_known(connection, "kind", name)
    elif what == "scope":
        requests.check_name("scope", name, shortest=1)
