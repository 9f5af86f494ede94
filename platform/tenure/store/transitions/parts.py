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


# More than one task, or one that is not its own, is in an activity. As a rule one look at an empty index.
_SHARED = "exists (select 1 from tasks o where o.activity_id = activities.id and o.activity_id <> o.id)"


def closing(source: str, activity: str, *, actor: str = "null::text", stack: str = "null::text") -> str:
    """What every terminal path does: redact params, end the activity, tell the execution.

    `source` has CLOSED. `activity`: the status of an activity that is the task's own; a shared one ends with the last of
    its tasks, by what became of all. Only an activity in progress is ended: the first who says so wins. `actor`: who
    executed or ended it.
    """
    reason = f"(select c.error_message from {source} c where c.activity_id = activities.id limit 1)"
    started = f"(select min(c.started_at) from {source} c where c.activity_id = activities.id)"
    ending = f"array(select id from {source})"
    own = f"case when warning_message is null or {activity} <> 'complete' then {activity} else 'complete_with_warning' end"
    return f"""
    cp as (delete from task_params where task_id = any(array(select id from {source} where not keep_params))),
    ca as (update activities set ended_at = clock_timestamp(),
              executed_at = coalesce(executed_at, {started}, shared_start(id)), message = coalesce({reason}, message),
              status = case when not {_SHARED} then {own} else shared_outcome(id, {ending},
                  array(select state from {source} where activity_id = activities.id), warning_message is not null) end,
              actor = coalesce({actor}, actor), stack = {stack}
           where id {of(source, "activity_id")} and status = 'in_progress'
             and (not {_SHARED} or activity_is_over(id, {ending}))),
    cx as (insert into execution_due (execution_id) select execution_id from {source} where execution_id is not null)"""


def free_of(source: str) -> str:
    """CTEs: `free`, those rows of `source` (id, activity_id) whose activity nobody else holds, or which have none. What
    sweeps many at once must not wait for one of them: it would end none."""
    return f"""
    open as (select a.id from activities a where a.id {of(source, "activity_id")} for no key update skip locked),
    free as (select s.id from {source} s where s.activity_id {of("open")}
             or not exists (select 1 from activities a where a.id = s.activity_id))"""


CLOSED = "id, state, outcome, activity_id, execution_id, keep_params, started_at, error_message"
