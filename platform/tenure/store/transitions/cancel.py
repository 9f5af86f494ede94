"""request_cancel: pending tasks end at once; for active ones a stop request is appended, the task row is not touched
(an open caller transaction would block the task's finish)."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from tenure.store.transitions.parts import ACTIVE, CLOSED, PENDING, STOP_CHANNEL, closing, event

_REQUEST = text(f"""with
    u as (update tasks set state = 'cancelled', finished_at = clock_timestamp(), error_code = null, error_message = null,
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id = :id and state in {PENDING} returning {CLOSED}),
    e as ({event("u", "'request_cancel'", note=":asked_by")}),
    dh as (delete from task_hints where task_id = any(array(select id from u))),
    {closing("u", "'cancelled'", actor="cast(:asked_by as text)")},
    active as (select id, state from tasks where id = :id and state in {ACTIVE}
               and not exists (select 1 from task_stops s where s.task_id = tasks.id)),
    s as (insert into task_stops (task_id, asked_by, reason) select id, :asked_by, cast(:reason as text) from active),
    se as ({event("active", "'request_cancel'", note=":asked_by")}),
    n as (select pg_notify('{STOP_CHANNEL}', '') from active)
    select (select count(*) from u), (select count(*) from active), (select count(*) from n)""")

_STATE = text("select state, exists (select 1 from task_stops s where s.task_id = tasks.id) from tasks where id = :id")


def request(connection: Connection, task_id: UUID, *, asked_by: str, reason: str | None) -> tuple[str | None, bool]:
    """Ask once. Answers (state now, stop asked); (None, False) for an unknown id.

    A claim that commits while the statement runs is seen by neither half, so it is run again: twice is harmless.
    """
    values = {"id": task_id, "asked_by": asked_by, "reason": reason}
    for _ in range(5):
        ended, asked, _ = connection.execute(_REQUEST, values).one()
        row = connection.execute(_STATE, {"id": task_id}).first()
        if row is None:
            return None, False
        state, stop = row
        if ended or asked or stop or state not in ("waiting", "scheduled", "queued", "validating", "running"):
            return state, stop
    return state, stop
