"""Pieces that several transitions share, as SQL text over a CTE's name."""

from __future__ import annotations

from tenure.store.advisory import NOTIFYING

NOTIFY_CHANNEL = "tenure_hints"
STOP_CHANNEL = "tenure_stops"
# One NOTIFY per commit takes a global lock at commit: only who gets this advisory lock sends it, polling covers the rest.
HINT_NOTIFY = f"select pg_notify('{NOTIFY_CHANNEL}', '') where pg_try_advisory_xact_lock({NOTIFYING})"

TERMINAL = "('succeeded','partially_succeeded','failed','cancelled')"
PENDING = "('waiting','scheduled','queued')"
ACTIVE = "('validating','running')"


def of(cte: str, column: str = "id") -> str:
    """`= any(array(select column from cte))`: an index condition whatever the planner thinks of the CTE."""
    return f"= any(array(select {column} from {cte}))"


# What `hint` needs of a task.
HINTED = "id, state, kind, queue, priority, scope, available_at"


def hint(source: str, *, not_before: str = "null::timestamptz") -> str:
    """Insert a hint for every row of `source` (HINTED).

    Its turn never changes: all hints age alike, so priority and age together are one column, walked by an index.
    """
    return (
        "insert into task_hints (task_id, kind, queue, scope, priority, turn, not_before) "
        f"select id, kind, queue, scope, priority, hint_turn(available_at, priority), {not_before} from {source}"
    )


def event(source: str, verb: str, *, token: str = "null::bigint", note: str = "null::text") -> str:
    """Insert a history event for every row of `source` (id, state)."""
    return (
        "insert into task_events (created_at, task_id, verb, state, token, note) "
        f"select clock_timestamp(), id, {verb}, state, {token}, {note} from {source}"
    )


def attempt_row(
    lease: str, how: str, *, code: str = "null::text", message: str = "null::text", forced: str = "false"
) -> str:
    """Write the attempt whole, from the lease row just deleted: it holds who, when and which token.

    It ended before this statement began: what the same commit claims next comes after it.
    """
    return (
        "insert into task_attempts (created_at, task_id, attempt, token, worker, pid, ended_at, how, error_code, error_message, forced) "
        f"select acquired, task_id, attempt, token, worker, pid, statement_timestamp(), {how}, {code}, {message}, {forced} from {lease}"
    )


def closing(source: str, activity: str) -> str:
    """What every terminal path does: redact params, end the activity, tell the execution.

    `source` has id, activity_id, execution_id, keep_params, started_at. Several of its tasks may share an activity.
    A shared activity ends with the last of its tasks, as that one does; for others the look costs one empty index.
    """
    return f"""
    cp as (delete from task_params where task_id = any(array(select id from {source} where not keep_params))),
    ca as (update activities set status = {activity}, ended_at = clock_timestamp(),
              executed_at = coalesce(executed_at, (select min(c.started_at) from {source} c where c.activity_id = activities.id))
           where id {of(source, "activity_id")} and status = 'in_progress'
             and (not exists (select 1 from tasks o where o.activity_id = activities.id and o.activity_id <> o.id
                              and o.finished_at is null)
                  or activity_is_over(id, array(select id from {source})))),
    cx as (insert into execution_due (execution_id) select execution_id from {source} where execution_id is not null)"""


CLOSED = "id, state, outcome, activity_id, execution_id, keep_params, started_at"
