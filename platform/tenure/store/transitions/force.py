"""The end of an attempt whose child had to be ended: written by the worker's main process once the process is gone.

The guard is that of `recover`, for exactly one token: whoever held it can write no more. The attempt is marked forced.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.records import Ended
from tenure.store.transitions.end import HOLDER
from tenure.store.transitions.parts import CLOSED, HINT_NOTIFY, HINTED, attempt_row, closing, event, hint, of

_GONE = "worker = :worker and pid = :pid and token = :token"

_END = text(f"""with
    d as (delete from task_leases where {_GONE} returning *),
    eu as (update tasks set state = :state, outcome = cast(:outcome as text), finished_at = clock_timestamp(),
              error_code = cast(:error_code as text), error_message = cast(:error_message as text),
              redacted_at = case when keep_params then null else clock_timestamp() end
           where id {of("d", "task_id")} returning {CLOSED}),
    ea as ({attempt_row("d", ":state", code="cast(:error_code as text)", message="cast(:error_message as text)", forced="true")}),
    ee as ({event("eu", ":verb", token="(select token from d)", note="'forced'")}),
    {closing("eu", "cast(:activity as text)", actor=HOLDER)}
    select id from eu""")

_RELEASE = text(f"""with
    d as (delete from task_leases where {_GONE} returning *),
    eu as (update tasks set state = 'queued', attempt = attempt - 1
           where id {of("d", "task_id")} returning {HINTED}),
    ea as ({attempt_row("d", "'released'", forced="true")}),
    ee as ({event("eu", "'release'", token="(select token from d)", note="'forced'")}),
    eh as ({hint("eu")})
    select id from eu""")


def force(connection: Connection, worker: UUID, pid: int, token: int, how: Ended) -> UUID | None:
    """End the attempt of this token as `how` says; the task, or None when the lease was settled already."""
    values = {"worker": worker, "pid": pid, "token": token}
    if how.verb == "release":
        task_id: UUID | None = connection.execute(_RELEASE, values).scalar()
        if task_id is not None:
            connection.execute(text(HINT_NOTIFY))
        return task_id
    ending = {
        "state": how.state,
        "outcome": how.outcome,
        "verb": how.verb,
        "activity": how.activity,
        "error_code": how.error_code,
        "error_message": how.error_message,
    }
    ended: UUID | None = connection.execute(_END, {**values, **ending}).scalar()
    return ended
