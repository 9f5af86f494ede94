"""Many tasks in one commit, and what must be true of them when they have ended."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from bench.processes import BenchError, until
from tenure.model.kinds import Kind
from tenure.store.transitions.parts import HINT_NOTIFY, HINTED, event, hint

# The rows of one submit, n times: task, params, activity, history, hint.
_SUBMIT = text(f"""with
    ids as materialized (select uuidv7() id from generate_series(1, :n)),
    t as (insert into tasks (id, kind, queue, priority, state, request_hash, submitter, initiator_type, initiator_id,
              initiator_name, available_at, max_attempts, on_lost, keep_params, plans, activity_id)
          select id, :kind, :queue, 0, 'queued', :hash, :run, 'service', 'bench', 'bench', clock_timestamp(), 1, 'fail',
              false, false, id from ids
          returning {HINTED}, activity_id),
    p as (insert into task_params (task_id, params) select id, '{{}}' from t),
    a as (insert into activities (id, task_id, initiator_type, initiator_id, initiator_name, target_type, target_name)
          select activity_id, id, 'service', 'bench', 'bench', 'task', kind from t),
    e as ({event("t", "'submit'")}),
    h as ({hint("t")})
    select count(*) from t""")
_CLOCK = text("select extract(epoch from clock_timestamp())::float8")
_LEFT = text("""select exists (select 1 from tasks where state = 'queued' and queue = :queue)
    or exists (select 1 from task_leases)""")
_LAST = text("select extract(epoch from max(finished_at))::float8 from tasks where submitter = :run")
_WRONG = text("""select
    (select count(*) from tasks where submitter = :run and not (state = 'succeeded' and attempt = 1)),
    (select count(*) from tasks where submitter = :run) - :n,
    (select count(*) from task_leases),
    (select count(*) from task_hints),
    (select count(*) from task_attempts a join tasks k on k.id = a.task_id where k.submitter = :run and a.how = 'succeeded') - :n,
    (select count(*) from task_events e join tasks k on k.id = e.task_id where k.submitter = :run) - 3 * :n,
    (select count(*) from activities a join tasks k on k.id = a.task_id where k.submitter = :run and a.status = 'complete') - :n""")
_FAULTS = (
    "not succeeded at the first attempt", "tasks more than submitted", "leases left", "hints left",
    "attempts more than one each", "history events more than three each", "completed activities more than one each",
)  # fmt: skip


@dataclass(frozen=True)
class Bulk:
    """One submission: `commit` is the database's clock right after it."""

    run: str
    n: int
    queue: str
    commit: float


def submit(connection: Connection, kind: Kind, n: int, run: str) -> Bulk:
    """`n` tasks without params in one commit."""
    values = {
        "n": n, "kind": kind.spec.name, "queue": kind.spec.queue, "run": run, "hash": hashlib.sha256(b"{}").digest(),
    }  # fmt: skip
    with connection.begin():
        connection.execute(_SUBMIT, values)
        connection.execute(text(HINT_NOTIFY))
    with connection.begin():
        return Bulk(run, n, kind.spec.queue, connection.execute(_CLOCK).scalar_one())


def rate(connection: Connection, bulk: Bulk, *, seconds: float = 120.0) -> float:
    """Tasks per second from the commit to the last end, after every promise about these tasks was checked."""

    def done() -> bool:
        with connection.begin():
            return not connection.execute(_LEFT, {"queue": bulk.queue}).scalar_one()

    until(done, seconds=seconds, pace=0.05, what=bulk.run)
    verify(connection, bulk)
    with connection.begin():
        last: float = connection.execute(_LAST, {"run": bulk.run}).scalar_one()
    return bulk.n / (last - bulk.commit)


def verify(connection: Connection, bulk: Bulk) -> None:
    """BenchError unless every task succeeded at its first attempt and left its record, no lease and no hint."""
    with connection.begin():
        counts = connection.execute(_WRONG, {"run": bulk.run, "n": bulk.n}).one()
    wrong = [f"{count} {fault}" for count, fault in zip(counts, _FAULTS, strict=True) if count]
    if wrong:
        raise BenchError(f"{bulk.run}: {', '.join(wrong)}: this run does not count")


def measured(engine: Engine, kind: Kind, n: int, run: str) -> float:
    """Submit, wait, verify: the rate of one run."""
    with engine.connect() as connection:
        return rate(connection, submit(connection, kind, n, run))
