"""reject before any claim: a queued task whose request turned out to be invalid (the adoption of a foreign message).

A claimed task is rejected by its holder, through the fenced end.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from tenure.store.transitions.parts import CLOSED, closing, event, of

_REJECT = text(f"""with
    u as (update tasks set state = 'failed', outcome = 'rejected', error_code = 'rejected',
             error_message = cast(:reason as text), finished_at = clock_timestamp(),
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id = :id and state = 'queued' and attempt = 0 and crashes = 0 returning {CLOSED}),
    e as ({event("u", "'reject'", note="outcome")}),
    dh as (delete from task_hints where task_id {of("u")}),
    {closing("u", "'failed'")}
    select id from u""")


def reject(connection: Connection, task_id: UUID, *, reason: str) -> bool:
    """End a queued task that was never claimed as `failed / rejected`. False: it is not queued, or was claimed once."""
    return connection.execute(_REJECT, {"id": task_id, "reason": reason}).first() is not None
