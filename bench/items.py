"""What items cost a run, how far they let it grow, and how long a million of them take to decide how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, text

from bench.cities import BENCH, CLASS, define
from bench.figures import Figure, Sample
from bench.kinds.importing import PAGE, importing
from bench.kinds.noop import QUEUE, noop
from bench.place import engine, settled
from bench.processes import BenchError, until
from bench.run import Run
from bench.worker import worker
from tenure import client
from tenure.model.records import Claimed, Holder
from tenure.store.hot import HotSession
from tenure_records.classes import create_class

PART = "items"
_ENDED = text("""select k.state, r.result from tasks k left join task_results r on r.task_id = k.id
    where k.id = :id and k.finished_at is not null""")
# What a run leaves: a million items of which some are in error, and their sums.
_LEAVE = text("""with i as (insert into activity_items (activity_id, source_id, change, object_id, error_code, unhandled)
        select :id, :id, 'updated', n::text, case when n % 100 = 0 then 'Odd' end, n % 10000 = 0 from generate_series(1, :n) n
        returning error_code, unhandled)
    insert into activity_statistics (activity_id, source_id, change, objects, errors, unhandled)
    select :id, :id, 'updated', count(*), count(error_code), count(*) filter (where unhandled) from i""")
_SCAN = text("""select count(*), count(error_code), count(*) filter (where unhandled) from activity_items
    where activity_id = :id""")


def measure(run: Run) -> Iterator[Figure]:
    """Imports with and without items, then ends of tasks with a million."""
    objects = run.count(500_000)
    database, broker = run.place.database("tenure_items"), run.place.broker(6)
    with worker(run.place, database, broker, queues=QUEUE) as here:
        with here.begin() as connection:
            create_class(connection, CLASS)
        with here.begin() as connection:
            define(connection)
        run_of = _imported(run, here, objects)
    conditions = f"{objects:,} objects with 5 computed fields, pages of {PAGE}"
    without = run_of["none"]["grown_mib"]
    for how, what in (("each", "an item for each object"), ("errors", "items for errors, the rest counted")):
        found = run_of[how]
        yield Figure(PART, f"{what}: share of the run", "%", Sample([100 * found["on_items"] / found["seconds"]]),
                     at_most=15.0, conditions=conditions, details=found)  # fmt: skip
        yield Figure(PART, f"{what}: memory grown after the first page", "MiB", Sample([found["grown_mib"]]),
                     at_most=64.0, conditions=f"{without:.0f} MiB without items")  # fmt: skip
    yield _decided(run)


def _imported(run: Run, here: Engine, objects: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for how in ("none", "errors", "each"):
        run.say(f"items: import of {objects}, items for {how}")
        settled(here, "record_objects", "object_computed_data")
        first = len(found) * objects
        params = {"class_name": CLASS, "first": first, "objects": objects, "items": how}
        with here.begin() as connection:
            task = client.submit(connection, importing, params, initiator=BENCH).id
        found[how] = _result(here, task, "succeeded" if how != "errors" else "partially_succeeded")
    return found


def _result(here: Engine, task: UUID, wanted: str) -> dict[str, float]:
    def ended() -> Any:
        with here.begin() as connection:
            return connection.execute(_ENDED, {"id": task}).first()

    state, result = until(ended, seconds=1800, pace=0.2, what="the import")
    if state != wanted:
        raise BenchError(f"items: the import {state}: this run does not count")
    return dict(result)


def _decided(run: Run) -> Figure:
    """The whole end of a task, from the statement to its commit, beside a scan of its items."""
    count = run.count(1_000_000)
    here = engine(run.place.database("tenure_decide"))
    session = HotSession(
        str(here.url.render_as_string(hide_password=False)), Holder(uuid4(), 1), [noop.spec.name], lease_seconds=600
    )
    ours, theirs = [], []
    try:
        for number in range(1, run.repeats + 1):
            run.say(f"items: deciding over {count}, run {number} of {run.repeats}")
            claimed = _with_items(here, session, count)
            began = time.perf_counter()
            how = session.decide(claimed, summary=None, result=None)
            ours.append((time.perf_counter() - began) * 1000)
            if how is None or how.activity != "complete_with_error":
                raise BenchError("items: the rule answered otherwise")
            with here.begin() as connection:
                began = time.perf_counter()
                connection.execute(_SCAN, {"id": claimed.activity_id}).one()
                theirs.append((time.perf_counter() - began) * 1000)
    finally:
        session.close()
        here.dispose()
    return Figure(PART, f"end of a task with {count:,} items", "ms", Sample(ours), "a scan of the items", Sample(theirs),
                  at_most=1500.0)  # fmt: skip


def _with_items(here: Engine, session: HotSession, count: int) -> Claimed:
    with here.begin() as connection:
        task = client.submit(connection, noop, initiator=BENCH).id
    claimed = session.claim(task)
    if claimed is None:
        raise BenchError("items: the task was not claimed")
    with here.begin() as connection:
        connection.execute(_LEAVE, {"id": task, "n": count})
    return claimed
