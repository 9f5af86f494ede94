"""claim: queued → running (or validating), by id or from the next hint; a lease with a rising token comes with it."""

from __future__ import annotations

from tenure.store.transitions.parts import of

# Said so that no index on state or kind can serve it: on an empty table such an index looks as cheap as the primary
# key, and a statement prepared then would walk the whole backlog with it until the next ANALYZE.
_QUEUED = "state || '' = 'queued'"
_ITS_TIME = f"""{_QUEUED} and available_at <= clock_timestamp()
        and (deadline is null or deadline > clock_timestamp())
        and (start_by is null or started_at is not null or start_by > clock_timestamp())"""


def refusal(*, locking: bool) -> str:
    """Which dispatch rule a row of `tasks` breaks now, or null: stop asked, pause, limits, scope, exclusiveness.

    A claim asks it `locking`: what it counted then stays true until the claim has committed. Nobody else may.
    """
    return f"claim_refusal(id, kind, queue, scope, exclusive, {str(locking).lower()})"


def claimable(*, locking: bool) -> str:
    """The one predicate of a claim over a row of `tasks`; `why` reads the same text, without the locks."""
    return f"{_ITS_TIME} and {refusal(locking=locking)} is null"


def claiming(which: str, guard: str = "true") -> str:
    """CTEs t (the task), l (its lease) and ce (history) for the tasks whose id is `which`.

    A lease's time is taken after the rules were looked at: whoever made room for it had ended by then.
    """
    return f"""
    t as (update tasks set state = case when plans then 'validating' else 'running' end,
             attempt = attempt + 1, started_at = coalesce(started_at, clock_timestamp())
          where id {which} and kind || '' = any(:kinds) and {guard} and {claimable(locking=True)}
          returning id, kind, queue, scope, exclusive, state, attempt, crashes, max_attempts, activity_id, deadline, run_limit,
                    execution_id),
    l as (insert into task_leases (task_id, token, worker, pid, kind, queue, scope, exclusive, attempt, acquired, renewed,
              expires, deadline)
          select id, nextval('lease_token'), :worker, :pid, kind, queue, scope, exclusive, attempt,
                 (select clock_timestamp() from t limit 1), clock_timestamp(), clock_timestamp() + make_interval(secs => :lease_seconds),
                 least(deadline, clock_timestamp() + run_limit)
          from t returning task_id, token, acquired, deadline),
    ce as (insert into task_events (created_at, task_id, verb, state, token)
           select clock_timestamp(), t.id, 'claim', t.state, l.token from t join l on l.task_id = t.id)"""


GOT = """select 'got', t.id::text, t.kind, l.token, t.attempt, t.crashes, t.max_attempts, t.activity_id::text,
       (select p.params_version || ' ' || p.params::text from task_params p where p.task_id = t.id),
       (select c.cursor::text from task_checkpoints c where c.task_id = t.id),
       (select c.sequence from task_checkpoints c where c.task_id = t.id),
       extract(epoch from l.deadline - clock_timestamp())::float8, t.execution_id::text
  from t join l on l.task_id = t.id"""

# A row that somebody else holds (a cancel in a caller's open transaction) is not claimed, at once: a slot must not wait.
_FREE = f"= any(array(select k.id from tasks k where k.id = :id and k.{_QUEUED} for no key update skip locked))"
CLAIM = f"with {claiming(_FREE)} {GOT}"


def has_room(full: str) -> str:
    """Whether a hint h is worth taking, by an answer of `rules_full`; who waits to run alone may always try."""
    tags = "array['*', 'kind ' || h.kind, 'scope ' || h.scope, 'each ' || h.kind || ' ' || h.scope]"
    return f"""({full} is null or not {full} && {tags}
              or exists (select 1 from exclusive_turns e where e.task_id = h.task_id))"""


def next_hint(guard: str, ending: str) -> str:
    """CTE h: take up to :k hints of this queue and these kinds, by turn, passing over those without room.

    Skips hints and task rows that somebody holds, so an end never waits for the next task. Where a limit may count them
    one is taken at a time: within one statement the second would not count the first.
    """
    return f"""
    rules as materialized (select rules_full({ending}) as full),
    h as (delete from task_hints where id = any(array(
            select h.id from task_hints h join tasks k on k.id = h.task_id
            where h.queue = :queue and h.kind = any(:kinds) and (h.not_before is null or h.not_before <= clock_timestamp())
              and {guard} and {has_room("(select r.full from rules r)")}
            order by h.turn, h.id limit case when :k > 1 and exists (select 1 from limits l
                where l.what in ('global', 'scope') or l.name = any(:kinds)) then 1 else :k end
            for update of h skip locked for no key update of k skip locked))
          returning task_id)"""


# Who runs alone is claimed alone: in one statement with others it would not see them. So is what has lost a worker
# before: should it take the next one along, no neighbour of a batch pays for it.
BY_ITSELF = "(:k = 1 or not exclusive and crashes = 0)"

# A hint refused though its task is still queued (paused, say) goes back. The function sees what this statement claimed.
BACK = f"""select 'back', null, null, hints_back(array(select task_id from h)), {", ".join(["null"] * 9)}
  where exists (select 1 from h where task_id <> all(array(select id from t)))"""

_NOTHING_ENDS = "'{}'"
CLAIM_NEXT = f"""with {next_hint("true", _NOTHING_ENDS)}, {claiming(of("h", "task_id"), BY_ITSELF)}
{GOT} union all {BACK}"""

# A message whose claim was refused (paused, not due, its row held): its hint goes back, unless the task has one or is
# gone. Waits for nobody: it reads the task, and passes over what others hold.
HINT_BACK = "select hints_back(array[:id])"
