"""Activities: what somebody set in motion and what came of it. Reads only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

_LIST = text("""select id, task_id, parent_id, status, initiator_type, initiator_id, initiator_name, actor,
       target_type, target_id, target_name, context, message, created_at, executed_at, ended_at
  from activities
 where (cast(:status as text) is null or status = :status)
   and (cast(:before as uuid) is null or id < cast(:before as uuid))
 order by id desc limit :limit""")
_ONE = text("""select id, task_id, parent_id, status, initiator_type, initiator_id, initiator_name, actor,
       target_type, target_id, target_name, context, message, created_at, executed_at, ended_at
  from activities where id = :id""")
_ITEMS = text("""select created_at, change, object_type, object_id, object_name, error_code, error_message, detail
  from activity_items where activity_id = :id order by created_at, id limit :limit""")
_COUNTS = text(
    """select change, count(*), count(error_code) from activity_items where activity_id = :id group by 1 order by 1"""
)


def listing(
    connection: Connection, *, status: str | None = None, before: UUID | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """Activities, newest first (ids rise with time); `before` continues a listing."""
    values = {"status": status, "before": before, "limit": limit}
    return [dict(row) for row in connection.execute(_LIST, values).mappings()]


def one(connection: Connection, activity_id: UUID, *, items: int = 100) -> dict[str, Any] | None:
    """One activity with the first `items` of its items, and all of them counted by change."""
    row = connection.execute(_ONE, {"id": activity_id}).mappings().first()
    if row is None:
        return None
    counted = connection.execute(_COUNTS, {"id": activity_id})
    listed = connection.execute(_ITEMS, {"id": activity_id, "limit": items}).mappings()
    return {
        **row,
        "counts": {change: {"items": number, "errors": errors} for change, number, errors in counted},
        "items": [dict(item) for item in listed],
    }
