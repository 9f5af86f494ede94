"""claim: queued → running (or validating), by id or from the next hint; a lease with a rising token comes with it."""

from __future__ import annotations

from tenure.store.transitions.parts import of

# Said so that no index on state or kind can serve it: on an empty table such an index looks as cheap as the primary
# key, and a statement prepared then would walk the whole backlog with it until the next ANALYZE. For the same reason
# `offset 0` keeps the look-ups below from becoming joins.
_QUEUED = "state || '' = 'queued'"

# The one predicate of a claim; `why` reads the same text.
CLAIMABLE = f"""{_QUEUED} and available_at <= clock_timestamp()
        and (deadline is null or deadline > clock_timestamp())
        and (start_by is null or started_at is not null or start_by > clock_timestamp())
        and not exists (select 1 from task_stops s where s.task_id = tasks.id offset 0)
        and not exists (select 1 from pauses p where p.what = 'kind' and p.name = tasks.kind offset 0)
        and not exists (select 1 from pauses p where p.what = 'queue' and p.name = tasks.queue offset 0)"""


def claiming(which: str) -> str:
    """CTEs t (the task), l (its lease) and ce (history) for the tasks whose id is `which`."""
    return f"""
    t as (update tasks set state = case when plans then 'validating' else 'running' end,
             attempt = attempt + 1, started_at = coalesce(started_at, clock_timestamp())
          where id {which} and kind || '' = any(:kinds) and {CLAIMABLE}
          returning id, kind, queue, state, attempt, crashes, max_attempts, activity_id, deadline, run_limit),
    l as (insert into task_leases (task_id, token, worker, pid, kind, queue, attempt, acquired, renewed, expires, deadline)
          select id, nextval('lease_token'), :worker, :pid, kind, queue, attempt, statement_timestamp(), clock_timestamp(),
                 clock_timestamp() + make_interval(secs => :lease_seconds), least(deadline, clock_timestamp() + run_limit)
          from t returning task_id, token, acquired, deadline),
    ce as (insert into task_events (created_at, task_id, verb, state, token)
           select clock_timestamp(), t.id, 'claim', t.state, l.token from t join l on l.task_id = t.id)"""


GOT = """select 'got', t.id::text, t.kind, l.token, t.attempt, t.crashes, t.max_attempts, t.activity_id::text,
       (select p.params::text from task_params p where p.task_id = t.id),
       (select c.cursor::text from task_checkpoints c where c.task_id = t.id),
       (select c.sequence from task_checkpoints c where c.task_id = t.id),
       extract(epoch from l.deadline - clock_timestamp())::float8
  from t join l on l.task_id = t.id"""

CLAIM = f"with {claiming('= :id')} {GOT}"


def next_hint(guard: str) -> str:
    """CTE h: take up to :k hints of this queue and these kinds, by priority and age.

    Skips hints and task rows that somebody holds, so an end never waits for the next task.
    """
    return f"""
    h as (delete from task_hints where id = any(array(
            select h.id from task_hints h join tasks k on k.id = h.task_id
            where h.queue = :queue and h.kind = any(:kinds) and (h.not_before is null or h.not_before <= clock_timestamp())
              and {guard}
            order by h.priority desc, h.id limit :k
            for update of h skip locked for no key update of k skip locked))
          returning task_id, kind, queue, priority)"""


# A hint refused though its task is still queued (paused, say) goes back and is not looked at again for a second.
HINTS_BACK = f"""
    hb as (insert into task_hints (task_id, kind, queue, priority, not_before)
           select task_id, kind, queue, priority, clock_timestamp() + interval '1 second' from h
           where task_id <> all(array(select id from t))
             and exists (select 1 from tasks x where x.id = h.task_id and x.{_QUEUED}))"""

CLAIM_NEXT = f"with {next_hint('true')}, {claiming(of('h', 'task_id'))}, {HINTS_BACK} {GOT}"

# A message whose claim was refused (paused, not due): its hint goes back, unless the task has one or is gone.
HINT_BACK = f"""insert into task_hints (task_id, kind, queue, priority, not_before)
    select id, kind, queue, priority, clock_timestamp() + interval '1 second' from tasks
    where id = :id and {_QUEUED} and not exists (select 1 from task_hints h where h.task_id = tasks.id)"""
