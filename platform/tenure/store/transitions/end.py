"""The fenced ends of an attempt. Deleting the lease row *is* the fence: what it returns decides what else happens.

A live lease row exists exactly while its task is active, so no second guard on tasks.state is needed.
"""

from __future__ import annotations

from tenure.store.transitions.claim import BACK, BY_ITSELF, GOT, claiming, next_hint
from tenure.store.transitions.parts import CLOSED, HINTED, attempt_row, closing, event, hint, of

FENCE = """task_id = any(:ids) and (task_id, token) in (select * from unnest(:ids, :tokens))
        and worker = :worker and pid = :pid and expires > clock_timestamp()"""
ONE = "task_id = :id and token = :token and worker = :worker and pid = :pid and expires > clock_timestamp()"

# Who executed it, for the audit record; an id of a boot, which its worker's row and every log line name.
HOLDER = "(select concat('worker ', d.worker, ' pid ', d.pid) from d limit 1)"


def _ending(*, history: bool) -> str:
    """Several tasks may end at once, all the same way, each with its own summary and result."""
    written = f"""
    ea as ({attempt_row("d", ":state", code=":error_code", message=":error_message")}),
    ee as ({event("eu", ":verb", token="(select token from d where d.task_id = eu.id)", note=":outcome")}),"""
    return f"""
    d as (delete from task_leases where {FENCE} returning *),
    eu as (update tasks set state = :state, outcome = :outcome, finished_at = clock_timestamp(),
              summary = (select s from unnest(:ids, :summaries) u(i, s) where i = tasks.id),
              error_code = :error_code, error_message = :error_message,
              redacted_at = case when keep_params then null else clock_timestamp() end
           where id {of("d", "task_id")} returning {CLOSED}),
    er as (insert into task_results (task_id, result) select i, r::jsonb from unnest(:ids, :results) u(i, r)
           where r is not null and i {of("d", "task_id")}),{written if history else ""}
    {closing("eu", ":activity", actor=HOLDER, stack=":stack")}"""


_ENDING = _ending(history=True)
_ENDED = """select 'ended', task_id::text, kind, token, attempt, null::int, null::int, null::text, null::text, null::text,
       null::bigint, null::float8, null::text from d"""

END = f"with {_ENDING} {_ENDED}"
# Without the rows that a broken history refuses: what must not be lost is how the task and its activity ended.
END_DIRECT = f"with {_ending(history=False)} {_ENDED}"

# Run-on: the next task is taken only if the end hit, in the same commit.
_NEXT = f"{next_hint('exists (select 1 from d)', ':ids')}, {claiming(of('h', 'task_id'), BY_ITSELF)}"
END_CLAIM = f"with {_ENDING}, {_NEXT} {_ENDED} union all {GOT} union all {BACK}"

# A body that has returned, where items or counters have a say in what that means: the rule is `items_outcome`, over what
# the items added up to, in the same statement. A million of them cost what one does.
OF_ITEMS = {
    "failed": "failed",
    "complete": "succeeded",
    "complete_with_warning": "partially_succeeded",
    "complete_with_error": "partially_succeeded",
}
_SAID = "case (select status from v) when 'failed' then {} end"
VERDICT = """select items_outcome(s.objects, s.errors, s.unhandled, coalesce(c.processed, 0), coalesce(c.failed, 0)) as status,
                    greatest(s.errors, c.failed) as bad
             from (select coalesce(sum(objects), 0) as objects, coalesce(sum(errors), 0) as errors, coalesce(sum(unhandled), 0) as unhandled
                   from activity_statistics where activity_id = :activity_id and source_id = :id and not nested) s
             left join task_checkpoints c on c.task_id = :id"""
DECIDE = f"""with
    d as (delete from task_leases where {ONE} returning *),
    v as materialized ({VERDICT}),
    eu as (update tasks set finished_at = clock_timestamp(), summary = :summary,
              state = case (select status from v) {" ".join(f"when '{status}' then '{state}'" for status, state in OF_ITEMS.items())} end,
              outcome = {_SAID.format("'error'")}, error_code = {_SAID.format("'all_failed'")},
              error_message = {_SAID.format("(select 'all ' || bad || ' items failed' from v)")},
              redacted_at = case when keep_params then null else clock_timestamp() end
           where id {of("d", "task_id")} returning {CLOSED}, error_code),
    er as (insert into task_results (task_id, result) select task_id, cast(:result as jsonb) from d where :result is not null),
    ea as ({attempt_row("d", "(select state from eu)", code="(select error_code from eu)", message="(select error_message from eu)")}),
    ee as ({event("eu", "case state when 'succeeded' then 'succeed' when 'failed' then 'fail' else 'partially_succeed' end", token=":token", note="outcome")}),
    {closing("eu", "(select status from v)", actor=HOLDER)}
    select state, outcome, error_code, error_message, (select status from v) from eu"""

RETRY_LATER = f"""with
    d as (delete from task_leases where {ONE}
             and exists (select 1 from tasks k where k.id = task_leases.task_id and k.attempt - k.crashes < k.max_attempts)
          returning *),
    eu as (update tasks set state = 'scheduled', available_at = clock_timestamp() + make_interval(secs => :delay),
              error_code = :error_code, error_message = :error_message
           where id {of("d", "task_id")} returning id, state),
    ea as ({attempt_row("d", "'retried'", code=":error_code", message=":error_message")}),
    ee as ({event("eu", "'retry_later'", token="(select token from d)", note=":error_code")})
    select id from eu"""

RELEASE = f"""with
    d as (delete from task_leases where {ONE} returning *),
    eu as (update tasks set state = 'queued', attempt = attempt - 1
           where id {of("d", "task_id")} returning {HINTED}),
    ea as ({attempt_row("d", "'released'", code=":error_code", message=":error_message")}),
    ee as ({event("eu", "'release'", token="(select token from d)", note=":error_code")}),
    eh as ({hint("eu", not_before="clock_timestamp() + make_interval(secs => :delay)")})
    select id from eu"""

# validating → running, in its own transaction, lease first (the documented lock order).
BEGIN = f"""with
    f as (select task_id from task_leases where {ONE} for key share),
    eu as (update tasks set state = 'running' where id {of("f", "task_id")} and state = 'validating' returning id, state),
    ee as ({event("eu", "'begin'", token=":token")})
    select task_id from f"""
