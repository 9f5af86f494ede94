"""Activities: their warnings, and the life of one that no task ends. Only one in progress is changed: the first end wins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import INTERVAL

from tenure.model.faults import storable
from tenure.model.records import Initiator, Lease

WARNINGS = 2000  # characters of all warnings of an activity
BATCH = 100

# Said again by an attempt that resumes, it stands once.
_WARNED = f"""warning_message = case when strpos(coalesce(warning_message, ''), :message) > 0 then warning_message
    else left(concat_ws(E'\\n', warning_message, cast(:message as text)), {WARNINGS}) end"""

# Lease first, as everywhere. Nobody holds an activity's row for long: its end is the only other writer.
_WARN_AS = text(f"""with l as (select 1 from task_leases where task_id = :task_id and token = :token and worker = :worker
        and pid = :pid and expires > clock_timestamp() for key share)
    update activities set {_WARNED} where id = :id and status = 'in_progress' and exists (select 1 from l)""")
_WARN = text(f"update activities set {_WARNED} where id = :id and status = 'in_progress'")

_START = text("""insert into activities (id, parent_id, initiator_type, initiator_id, initiator_name, actor, target_type, target_id,
        target_name, context, executed_at, expires_at)
    values (:id, :parent_id, :initiator_type, :initiator_id, :initiator_name, :actor, :target_type, :target_id, :target_name,
        :context, clock_timestamp(), clock_timestamp() + cast(:within as interval))""").bindparams(
    bindparam("within", type_=INTERVAL)
)

# A task that has not ended will end it: a shared activity, or one that was attached.
_OF_TASKS = """(exists (select 1 from tasks k where k.activity_id = a.id and k.activity_id <> k.id and k.finished_at is null)
    or exists (select 1 from tasks k where k.id = a.id and k.activity_id = a.id and k.finished_at is null))"""

# The same rule as for a task's: over what the items add up to.
_END = text(f"""update activities a set ended_at = clock_timestamp(), expires_at = null, actor = coalesce(:actor, a.actor),
        executed_at = coalesce(a.executed_at, clock_timestamp()), stack = cast(:stack as text),
        status = case when cast(:status as text) is not null then :status
            when a.warning_message is not null and v.status = 'complete' then 'complete_with_warning' else v.status end,
        message = coalesce(cast(:message as text), case v.status when 'failed' then 'all ' || v.errors || ' items failed' end, a.message)
    from (select items_outcome(s.objects, s.errors, s.unhandled, 0, 0) as status, s.errors
          from (select coalesce(sum(objects), 0) as objects, coalesce(sum(errors), 0) as errors,
                       coalesce(sum(unhandled), 0) as unhandled
                from activity_statistics where activity_id = :id and not nested) s) v
    where a.id = :id and a.status = 'in_progress' and not {_OF_TASKS} returning a.status""")

_STATUS = text(f"select a.status, {_OF_TASKS} from activities a where a.id = :id")

# Whoever had it in hand is gone. One that tasks are at is theirs to end, and one that they have ended is only forgotten.
_EXPIRE = text(f"""with
    late as (select a.id, a.status = 'in_progress' and not {_OF_TASKS} as lost from activities a
             where a.expires_at <= statement_timestamp() limit {BATCH} for no key update skip locked)
    update activities a set expires_at = null, status = case when lost then 'failed' else a.status end,
        ended_at = case when lost then clock_timestamp() else a.ended_at end,
        message = case when lost then 'whoever had it in hand did not end it in time' else a.message end
    from late where a.id = late.id returning a.id, lost""")


@dataclass(frozen=True)
class Start:
    """An activity that is to be; `within`: after so long without an end it is ended as failed."""

    id: UUID
    initiator: Initiator
    within: timedelta
    target_type: str | None = None
    target_id: str | None = None
    target_name: str | None = None
    context: str | None = None
    parent_id: UUID | None = None
    actor: str | None = None


def warn_as(connection: Connection, lease: Lease, activity_id: UUID, message: str) -> bool:
    """Add a warning in the name of a task's holder. False: the lease is lost, or the activity has ended."""
    values = {
        "task_id": lease.task_id, "token": lease.token, "worker": lease.holder.worker, "pid": lease.holder.pid,
        "id": activity_id, "message": storable(message),
    }  # fmt: skip
    return connection.execute(_WARN_AS, values).rowcount == 1


def warn(connection: Connection, activity_id: UUID, message: str) -> bool:
    """Add a warning. False: it has ended, or there is none of that id."""
    return connection.execute(_WARN, {"id": activity_id, "message": storable(message)}).rowcount == 1


def start(connection: Connection, one: Start) -> None:
    values: dict[str, Any] = dict(vars(one))
    initiator = values.pop("initiator")
    named = {f"initiator_{part}": getattr(initiator, part) for part in ("type", "id", "name")}
    connection.execute(_START, {**values, **named})


def end(
    connection: Connection,
    activity_id: UUID,
    *,
    status: str | None = None,
    message: str | None = None,
    stack: str | None = None,
    actor: str | None = None,
) -> str | None:
    """End it as `status`, or as its items say; the status it now has. None: it is not in progress, or tasks are to end it."""
    values = {"id": activity_id, "status": status, "message": message, "stack": stack, "actor": actor}
    found: str | None = connection.execute(_END, values).scalar()
    return found


def status(connection: Connection, activity_id: UUID) -> tuple[str, bool] | None:
    """(status, tasks are to end it), or None when there is none of that id."""
    row = connection.execute(_STATUS, {"id": activity_id}).first()
    return None if row is None else (row[0], row[1])


def expire(connection: Connection) -> list[tuple[UUID, bool]]:
    """Look at up to BATCH activities past their time: (id, ended now as failed). Tasks end those that they are at. Loop
    until []."""
    return [(row[0], row[1]) for row in connection.execute(_EXPIRE)]
