"""Activities: what somebody set in motion and what came of it. Reads only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import INTERVAL, TIMESTAMP

from tenure.store import progress

CHILDREN = 20  # of an activity's children shown with it

# Executed from the claim of its first task on; written down with the end, since a claim must not write to it.
_FIELDS = """id, task_id, parent_id, status, initiator_type, initiator_id, initiator_name, actor, target_type, target_id,
       target_name, context, message, warning_message, stack, created_at,
       coalesce(executed_at, shared_start(id), (select k.started_at from tasks k where k.id = task_id)) as executed_at, ended_at"""
_LIST = text(f"""select {_FIELDS}
  from activities
 where (cast(:status as text) is null or status = :status)
   and (cast(:initiator as text) is null or :initiator in (initiator_name, initiator_id, initiator_type || ':' || initiator_name))
   and (cast(:target as text) is null or :target in (target_name, target_id, target_type || ':' || target_name))
   and (cast(:since as timestamptz) is null or created_at >= cast(:since as timestamptz))
   and (cast(:age as interval) is null or created_at >= clock_timestamp() - cast(:age as interval))
   and (cast(:before as uuid) is null or id < cast(:before as uuid))
 order by id desc limit :limit""").bindparams(
    bindparam("since", type_=TIMESTAMP(timezone=True)), bindparam("age", type_=INTERVAL)
)
# Those that it set in motion itself, such as one for each object of a fan-out.
_CHILDREN = text("""select id, status, target_type, target_name, created_at, ended_at from activities
 where parent_id = :id order by id limit :limit""")
_CHILDREN_COUNTED = text("select status, count(*) from activities where parent_id = :id group by 1 order by 1")
_ONE = text(f"select {_FIELDS} from activities where id = :id")
_ITEMS = text("""select created_at, change, object_type, object_id, object_name, error_code, error_message, unhandled, snapshot,
       outcomes
  from activity_items where activity_id = :id order by error_code is null, created_at, id limit :limit""")
_COUNTS = text("""select nested, change, sum(objects)::bigint, sum(errors)::bigint, sum(unhandled)::bigint from activity_statistics
    where activity_id = :id group by 1, 2 order by 1, 2""")


def listing(
    connection: Connection,
    *,
    status: str | None = None,
    initiator: str | None = None,
    target: str | None = None,
    since: datetime | timedelta | None = None,
    before: UUID | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Activities, newest first (ids rise with time); `before` continues a listing.

    `initiator` and `target` are a name, an id or TYPE:NAME, all exact. `since`: made at or after this time, or so long ago
    at most.
    """
    values = {
        "status": status,
        "initiator": initiator,
        "target": target,
        "since": since if isinstance(since, datetime) else None,
        "age": since if isinstance(since, timedelta) else None,
        "before": before,
        "limit": limit,
    }
    return [dict(row) for row in connection.execute(_LIST, values).mappings()]


def children(connection: Connection, activity_id: UUID, limit: int) -> dict[str, Any]:
    """The activities whose parent this is: counted by status, and the first `limit` of them."""
    counted = connection.execute(_CHILDREN_COUNTED, {"id": activity_id})
    listed = connection.execute(_CHILDREN, {"id": activity_id, "limit": limit}).mappings()
    return {"counts": {row[0]: row[1] for row in counted}, "first": [dict(row) for row in listed]}


def one(connection: Connection, activity_id: UUID, *, items: int = 100) -> dict[str, Any] | None:
    """One activity with the first `items` of its items, those in error before others; all objects by change (`counts`), what
    followed from their changes (`outcomes`), its phases and its children."""
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
        "phases": progress.phases(connection, activity_id),
        "children": children(connection, activity_id, CHILDREN),
    }
