"""Rows per second that retention deletes, table by table, through a task of a real worker, beside bare batched DELETEs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, text

from bench.cities import BENCH, CLASS, fill
from bench.figures import Figure, Sample
from bench.place import settled
from bench.processes import BenchError, until
from bench.run import Run
from bench.worker import worker
from tenure import client
from tenure.model.kinds import KindSpec
from tenure.retention import RETENTION
from tenure_records.kinds import RECORDS_RETENTION

PART = "retention"
BATCH = 5_000  # rows of a bare DELETE
_CLAIM = text("select extract(epoch from created_at)::float8 from task_events where task_id = :id and verb = 'claim'")
_ENDED = text("""select k.state, extract(epoch from k.finished_at)::float8, r.result
    from tasks k left join task_results r on r.task_id = k.id where k.id = :id""")
_KEEP = text("""insert into service_settings (name, value) values (:name, to_jsonb(cast(:days as float8)))
    on conflict (name) do update set value = excluded.value""")
_OLD = "clock_timestamp() - interval '100 days' + make_interval(secs => n * 0.001)"
_TASKS = (
    f"""insert into tasks (id, kind, queue, state, request_hash, initiator_type, initiator_id, initiator_name,
            available_at, attempt, activity_id, created_at, started_at, finished_at, redacted_at)
        select id, 'bench.noop', 'bench', 'succeeded', sha256('{{}}'), 'service', 'bench', 'bench', at, 1, id, at, at, at, at
        from (select uuidv7() as id, {_OLD} as at from generate_series(1, :n) n) made""",
    "insert into task_results select id, '{\"rows\": 1}' from tasks where kind = 'bench.noop'",
)
_ACTIVITIES = (
    f"""insert into activities (id, task_id, status, initiator_type, initiator_id, initiator_name, target_type,
            target_name, created_at, executed_at, ended_at)
        select id, id, 'complete', 'service', 'bench', 'bench', 'task', 'bench.noop', at, at, at
        from (select uuidv7() as id, {_OLD} as at from generate_series(1, :n) n) made""",
)
_EVENTS = (
    """insert into task_events (created_at, task_id, verb, state)
        select date_trunc('month', clock_timestamp(), 'UTC') - interval '1 day' + make_interval(secs => n * 0.001),
            uuidv7(), 'submit', 'queued' from generate_series(1, :n) n""",
)
_MONTH = """select make_old(date_trunc('month', clock_timestamp() - interval '200 days', 'UTC'))"""
_MAKE_OLD = """create or replace function make_old(m timestamptz) returns void language plpgsql as $$ begin
    execute format('create table if not exists task_events_%s partition of task_events for values from (%L) to (%L)',
        to_char(m, 'YYYYMM'), m, m + interval '1 month'); end $$"""
_OLD_EVENTS = (
    _MAKE_OLD,
    _MONTH,
    """insert into task_events (created_at, task_id, verb, state)
        select date_trunc('month', clock_timestamp() - interval '200 days', 'UTC') + make_interval(secs => n * 0.001),
            uuidv7(), 'submit', 'queued' from generate_series(1, :n) n""",
)


@dataclass(frozen=True)
class Case:
    """`rows` deleted for each of the n; `days` what the setting is while it runs."""

    what: str
    setting: str
    days: float
    fill: Sequence[str]
    table: str
    rows: int = 1
    bare: str | None = None


CASES = (
    Case("ended tasks, each with its result", "tasks", 90, _TASKS, "tasks", 2, "kind = 'bench.noop'"),
    Case("activities", "activities", 90, _ACTIVITIES, "activities", 1, "target_name = 'bench.noop'"),
    Case("history, row by row (ages below a month)", "events", 0.9, _EVENTS, "task_events", 1,
         "created_at < date_trunc('month', clock_timestamp(), 'UTC')"),
    Case("history, whole months", "events", 90, _OLD_EVENTS, "task_events"),
)  # fmt: skip


def measure(run: Run) -> Iterator[Figure]:
    """Each case on its own: the ages of the others are lifted."""
    database, broker = run.place.database("tenure_retention"), run.place.broker(6)
    with worker(run.place, database, broker, queues="default") as here:
        for case in CASES:
            yield _figure(run, here, case)
        yield _objects(run, here)


def _figure(run: Run, here: Engine, case: Case) -> Figure:
    count = max(20_000, run.count(200_000))
    for name in ("tasks", "activities", "events", "attempts", "executions"):
        _keep(here, name, 0)
    _keep(here, case.setting, case.days)
    if case.setting == "activities":
        _keep(here, "tasks", 90)  # an activity is kept at least as long as tasks are
    values = []
    for number in range(1, run.repeats + 1):
        run.say(f"retention: {case.what}, run {number} of {run.repeats}")
        _fill(here, case, count)
        values.append(count * case.rows / _seconds(here, RETENTION, {}, lambda r: r["rows"].get(case.table, 0), count))
    bare = _bare(run, here, case, count) if case.bare else None
    against = f"bare DELETE, {BATCH:,} rows at a time" if bare else ""
    return Figure(PART, case.what, "rows/s", Sample(values), against, bare, at_least=100_000, conditions=f"{count:,}")


def _objects(run: Run, here: Engine) -> Figure:
    count = max(20_000, run.count(100_000))
    run.say(f"retention: making {count} objects")
    fill(here, count)
    with here.begin() as connection:
        task = connection.execute(text("select active_task_id from class_computation_state")).scalar_one()
    until(lambda: _ended(here, task), seconds=120, pace=0.1, what="reindex")
    with here.begin() as connection:
        connection.execute(text("update record_classes set keep_newest = 0"))
    settled(here, "record_objects", "object_computed_data")
    run.say("retention: objects")
    seconds = _seconds(here, RECORDS_RETENTION, {}, lambda result: result["rows"].get(CLASS, 0), count)
    return Figure(PART, "objects, each with its computed values", "rows/s", Sample([2 * count / seconds]),
                  at_least=100_000, conditions=f"{count:,}")  # fmt: skip


def _keep(here: Engine, name: str, days: float) -> None:
    with here.begin() as connection:
        connection.execute(_KEEP, {"name": f"retention.{name}_days", "days": days})


def _fill(here: Engine, case: Case, count: int) -> None:
    for statement in case.fill:
        with here.begin() as connection:
            connection.execute(text(statement), {"n": count})
    settled(here, case.table)


def _ended(here: Engine, task: Any) -> Any:
    with here.begin() as connection:
        row = connection.execute(_ENDED, {"id": task}).one()
    return row if row[1] is not None else None


def _seconds(here: Engine, kind: KindSpec, params: dict[str, Any], rows: Callable[[Any], int], count: int) -> float:
    """From the claim to the end of one run, which must have deleted exactly so many."""
    with here.begin() as connection:
        task = client.submit(connection, kind, params, initiator=BENCH).id
    state, finished, result = until(lambda: _ended(here, task), seconds=300, pace=0.05, what="retention")
    if state != "succeeded" or rows(result) != count or not result["drained"]:
        raise BenchError(f"retention: the task {state}, {result}: this run does not count")
    with here.begin() as connection:
        claimed = connection.execute(_CLAIM, {"id": task}).scalar_one()
    return float(finished - claimed)


def _bare(run: Run, here: Engine, case: Case, count: int) -> Sample:
    statement = text(f"""delete from {case.table} where (tableoid, ctid) in
        (select tableoid, ctid from {case.table} where {case.bare} limit {BATCH})""")
    if case.table != "task_events":
        statement = text(f"""delete from {case.table} where ctid = any(array(
            select ctid from {case.table} where {case.bare} limit {BATCH}))""")
    values = []
    for number in range(1, run.repeats + 1):
        run.say(f"retention: bare DELETE of {case.what}, run {number} of {run.repeats}")
        _fill(here, case, count)
        began, gone = time.perf_counter(), 0
        while True:
            with here.begin() as connection:
                deleted = connection.execute(statement).rowcount
            gone += deleted
            if not deleted:
                break
        if gone != count:
            raise BenchError(f"retention: the bare DELETE took {gone} of {count} rows")
        values.append(count * case.rows / (time.perf_counter() - began))
    return Sample(values)
