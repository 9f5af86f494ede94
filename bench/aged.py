"""A database that has run for long: ended tasks with their activities, attempts and history, as retention would leave them."""

from __future__ import annotations

from sqlalchemy import Engine, text

_TASKS = text("""insert into tasks (id, kind, queue, state, request_hash, initiator_type, initiator_id, initiator_name,
        available_at, attempt, activity_id, created_at, started_at, finished_at, redacted_at)
    select id, 'bench.noop', 'bench', 'succeeded', sha256('{}'), 'service', 'bench', 'bench', at, 1, id, at, at, at, at
    from (select uuidv7() as id, clock_timestamp() - interval '1 hour' as at from generate_series(1, :n)) made""")
_ACTIVITIES = text("""insert into activities (id, task_id, status, initiator_type, initiator_id, initiator_name, target_type,
        target_name, created_at, executed_at, ended_at)
    select id, id, 'complete', 'service', 'bench', 'bench', 'task', kind, created_at, started_at, finished_at from tasks
    where finished_at is not null""")
_ATTEMPTS = text("""insert into task_attempts (created_at, task_id, attempt, token, worker, pid, how)
    select clock_timestamp(), id, 1, 1, id, 1, 'succeeded' from tasks where finished_at is not null""")
_EVENTS = text("""insert into task_events (created_at, task_id, verb, state)
    select clock_timestamp(), tasks.id, v.verb, v.state from tasks,
        (values ('submit', 'queued'), ('claim', 'running'), ('succeed', 'succeeded')) as v (verb, state)
    where finished_at is not null""")


def age(engine: Engine, count: int) -> None:
    """Fill it with so many ended tasks, and let the statistics know."""
    for statement, values in ((_TASKS, {"n": count}), (_ACTIVITIES, {}), (_ATTEMPTS, {}), (_EVENTS, {})):
        with engine.begin() as connection:
            connection.execute(statement, values)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("analyze"))
        connection.execute(text("checkpoint"))
