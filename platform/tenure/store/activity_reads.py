"""Activities: what somebody set in motion and what came of it. Reads only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

# Executed from the claim of its first task on; written down with the end, since a claim must not write to it.
_FIELDS = """id, task_id, parent_id, status, initiator_type, initiator_id, initiator_name, actor, target_type, target_id,
       target_name, context, message, warning_message, stack, created_at,
       coalesce(executed_at, shared_start(id), (select k.started_at from tasks k where k.id = task_id)) as executed_at, ended_at"""
_LIST = text(f"""select {_FIELDS}
  from activities
 where (cast(:status as text) is null or status = :status)
   and (cast(:before as uuid) is null or id < cast(:before as uuid))
 order by id desc limit :limit""")
_ONE = text(f"select {_FIELDS} from activities where id = :id")
_ITEMS = text("""select created_at, change, object_type, object_id, object_name, error_code, error_message, unhandled, snapshot,
       outcomes
  from activity_items where activity_id = :id order by created_at, id limit :limit""")
_COUNTS = text("""select nested, change, sum(objects)::bigint, sum(errors)::bigint, sum(unhandled)::bigint from activity_statistics
    where activity_id = :id group by 1, 2 order by 1, 2""")


def listing(
    connection: Connection, *, status: str | None = None, before: UUID | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """Activities, newest first (ids rise with time); `before` continues a listing."""
    values = {"status": status, "before": before, "limit": limit}
    return [dict(row) for row in connection.execute(_LIST, values).mappings()]


def one(connection: Connection, activity_id: UUID, *, items: int = 100) -> dict[str, Any] | None:
    """One activity with the first `items` of its items, all objects by change (`counts`), and what followed from their
    changes (`outcomes`)."""
    row = connection.execute(_ONE, {"id": activity_id}).mappings().first()
    if row is None:
        return None
    counted = connection.execute(_COUNTS, {"id": activity_id}).all()
    listed = connection.execute(_ITEMS, {"id": activity_id, "limit": items}).mappings()
    return {
        **row,
        "counts": {one[1]: {"objects": one[2], "errors": one[3], "unhandled": one[4]} for one in counted if not one[0]},
        "outcomes": {one[1]: one[2] for one in counted if one[0]},
        "items": [dict(item) for item in listed],
    }
