"""Pauses of kinds and queues: a claim reads them, nothing else need know. One row per paused thing."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import Connection, text

from tenure.store.transitions.parts import HINT_NOTIFY

What = Literal["kind", "queue"]

_PAUSE = text("""insert into pauses (what, name, paused_by, reason) values (:what, :name, :by, :reason)
    on conflict (what, name) do nothing""")
_RESUME = text("delete from pauses where what = :what and name = :name")
_LIST = text("select name, paused_by, reason, created_at from pauses where what = :what order by name")


def pause(connection: Connection, what: What, name: str, *, by: str, reason: str | None) -> bool:
    """Pause; False when it was paused already (the first pause stays as it is)."""
    values = {"what": what, "name": name, "by": by, "reason": reason}
    return connection.execute(_PAUSE, values).rowcount == 1


def resume(connection: Connection, what: What, name: str) -> bool:
    """Resume, and wake the dispatchers; False when it was not paused."""
    resumed = connection.execute(_RESUME, {"what": what, "name": name}).rowcount == 1
    if resumed:
        connection.execute(text(HINT_NOTIFY))
    return resumed


def listing(connection: Connection, what: What) -> dict[str, dict[str, Any]]:
    """Pauses by name: paused_by, reason, created_at."""
    rows = connection.execute(_LIST, {"what": what}).mappings()
    return {row["name"]: {n: row[n] for n in ("paused_by", "reason", "created_at")} for row in rows}
