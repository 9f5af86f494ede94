"""promote, expire, and the cancels that raced a hand-back: what time alone decides. The database's clock."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.store.transitions.parts import (
    CLOSED,
    HINT_NOTIFY,
    HINTED,
    PENDING,
    TERMINAL,
    closing,
    event,
    free_of,
    hint,
    of,
)

BATCH = 100
FORGOTTEN = 1000  # stop requests in one statement

# statement_timestamp() is stable within the statement: the partial index can serve it.
_PROMOTE = text(f"""with
    due as (select id from tasks where state = 'scheduled' and available_at <= statement_timestamp()
            order by available_at limit {BATCH} for no key update skip locked),
    u as (update tasks set state = 'queued' where id {of("due")} and state = 'scheduled' returning {HINTED}),
    e as ({event("u", "'promote'")}),
    h as ({hint("u")})
    select id from u""")

_EXPIRE = text(f"""with
    late as (select id, activity_id from tasks where state in {PENDING} and (start_by is not null or deadline is not null)
               and least(start_by, deadline) <= statement_timestamp()
              and (started_at is null or deadline <= statement_timestamp()) limit {BATCH} for no key update skip locked),
    {free_of("late")},
    u as (update tasks set state = 'failed', outcome = 'deadline_exceeded', error_code = 'deadline_exceeded',
             error_message = 'its time to start had passed', finished_at = clock_timestamp(),
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id {of("free")} and state in {PENDING} returning {CLOSED}),
    e as ({event("u", "'expire'", note="outcome")}),
    dh as (delete from task_hints where task_id {of("u")}),
    {closing("u", "'failed'")}
    select id from u""")

# Kinds by a walk along their index, a step for each. While no worker lives, nobody can say what one would know.
_EXPIRE_UNKNOWN = text(f"""with recursive
    kinds (kind) as ((select k.kind from tasks k order by k.kind limit 1) union all
        select (select k.kind from tasks k where k.kind > kinds.kind order by k.kind limit 1) from kinds
        where kinds.kind is not null),
    unknown as materialized (select kind from kinds where kind is not null
        and not exists (select 1 from workers w where w.role = 'worker' and kinds.kind = any(w.kinds))
        and exists (select 1 from workers w where w.role = 'worker' and w.ended_at is null
                    and w.last_seen > clock_timestamp() - interval '1 minute')),
    late as (select id, activity_id from tasks where kind {of("unknown", "kind")} and state = 'queued'
             and available_at <= statement_timestamp() - make_interval(secs => :days * 86400)
             limit {BATCH} for no key update skip locked),
    {free_of("late")},
    u as (update tasks set state = 'failed', outcome = 'rejected', error_code = 'unknown_kind',
             error_message = 'no worker has known its kind for days', finished_at = clock_timestamp(),
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id {of("free")} and state = 'queued' returning {CLOSED}),
    e as ({event("u", "'expire'", note="error_message")}),
    dh as (delete from task_hints where task_id {of("u")}),
    {closing("u", "'failed'")}
    select id from u""")

# A stop asked while the holder was handing the task back: no holder is left to acknowledge it.
_CANCEL_ASKED = text(f"""with
    asked as (select k.id, k.activity_id from tasks k where k.state in {PENDING} and k.id = any(array(select task_id from task_stops))
              limit {BATCH} for no key update skip locked),
    {free_of("asked")},
    u as (update tasks set state = 'cancelled', finished_at = clock_timestamp(), error_code = null, error_message = null,
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id {of("free")} and state in {PENDING} returning {CLOSED}),
    e as ({event("u", "'acknowledge_cancel'")}),
    dh as (delete from task_hints where task_id {of("u")}),
    {closing("u", "'cancelled'")}
    select id from u""")

# Of ended tasks, and of tasks that retention has taken meanwhile.
_FORGET_STOPS = text(f"""delete from task_stops where id = any(array(
    select s.id from task_stops s left join tasks k on k.id = s.task_id
    where k.id is null or k.state in {TERMINAL} limit {FORGOTTEN} for update of s skip locked)) returning id""")

# One look a round: an idle reaper costs one statement, not four.
_ANYTHING = text(f"""select
    exists (select 1 from task_leases where expires <= clock_timestamp()),
    exists (select 1 from task_stops),
    exists (select 1 from tasks where state in {PENDING} and (start_by is not null or deadline is not null)
              and least(start_by, deadline) <= statement_timestamp()
              and (started_at is null or deadline <= statement_timestamp())),
    exists (select 1 from tasks where state = 'scheduled' and available_at <= statement_timestamp()),
    exists (select 1 from activities where expires_at <= statement_timestamp()),
    exists (select 1 from execution_due where created_at <= statement_timestamp() - make_interval(secs => :older))""")


class Due(NamedTuple):
    """What time has decided and somebody has to write."""

    expired: bool
    stops: bool
    late: bool
    scheduled: bool
    activities: bool
    executions: bool


def anything(connection: Connection, *, older: float) -> Due:
    """What a round has to do at all; of executions only those whose member ended at least `older` seconds ago."""
    return Due(*connection.execute(_ANYTHING, {"older": older}).one())


def promote(connection: Connection) -> list[UUID]:
    """Up to BATCH scheduled tasks that are due become queued, each with a hint. Loop until []."""
    ids = list(connection.execute(_PROMOTE).scalars())
    if ids:
        connection.execute(text(HINT_NOTIFY))
    return ids


def expire(connection: Connection) -> list[UUID]:
    """Up to BATCH pending tasks past start-by or deadline end `failed / deadline_exceeded`. Loop until []."""
    return list(connection.execute(_EXPIRE).scalars())


def expire_unknown(connection: Connection, *, days: float) -> list[UUID]:
    """Up to BATCH queued tasks that were due `days` ago, of kinds that no worker has known since its row was forgotten,
    end `failed / rejected`. None while no worker lives. Loop until []."""
    return list(connection.execute(_EXPIRE_UNKNOWN, {"days": days}).scalars())


def cancel_asked(connection: Connection) -> list[UUID]:
    """Cancel up to BATCH pending tasks that carry a stop request. Loop until []."""
    return list(connection.execute(_CANCEL_ASKED).scalars())


def forget_stops(connection: Connection) -> list[int]:
    """Delete up to FORGOTTEN stop requests of tasks that have ended or are no more. Loop until []."""
    return list(connection.execute(_FORGET_STOPS).scalars())


_MAKE_DUE = text("update tasks set available_at = clock_timestamp() where id = :id and state = 'scheduled'")


def make_due(connection: Connection, task_id: UUID) -> bool:
    """Let the time of a scheduled task come: `promote` takes it next. For tests of kinds. False: it is not scheduled."""
    return connection.execute(_MAKE_DUE, {"id": task_id}).rowcount == 1
