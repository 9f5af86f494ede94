"""Objects per second through one reindex task of a real worker, from its claim to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from bench.cities import BENCH, CLASS, fill
from bench.figures import Figure, Sample
from bench.place import engine, settled
from bench.processes import BenchError, until
from bench.run import Run
from bench.worker import worker
from tenure_records.kinds import PAGE_ROWS
from tenure_records.rebuild import rebuild

PART = "reindex"
_TASK = text("select state, extract(epoch from finished_at)::float8 from tasks where id = :id")
_CLAIM = text("select extract(epoch from created_at)::float8 from task_events where task_id = :id and verb = 'claim'")
_FIRST = text("select active_task_id from class_computation_state where class_id = :class_id")
_STALE = text("""select count(*) from record_objects o left join object_computed_data c
    on c.class_id = o.class_id and c.object_id = o.id and c.change_seq = o.change_seq
    join class_computation_state s on s.class_id = o.class_id and s.rebuild_status = 'ready'
    where o.class_id = :class_id and c.evaluation_revision is distinct from s.evaluation_revision""")

# The same columns of the same rows in a table of the same shape. What is written was read before, outside the clock.
_COPY = (
    "create table bare_values (like object_computed_data including all) with (fillfactor = 50, "
    "autovacuum_vacuum_scale_factor = 0.02)",
    "insert into bare_values select * from object_computed_data order by class_id, object_id",
)
_READ = text("""select object_id, change_seq, encode(source_digest, 'hex'), values::text, errors::text from bare_values
    where class_id = :class_id and object_id > :after order by object_id limit :rows""")
_BARE = text("""update bare_values c set evaluation_revision = :revision, change_seq = u.seq,
        source_digest = decode(u.digest, 'hex'), values = u.v::jsonb, errors = u.e::jsonb, computed_at = clock_timestamp()
    from unnest(string_to_array(:ids, ',')::bigint[], string_to_array(:seqs, ',')::bigint[],
                string_to_array(:digests, ','), string_to_array(:values, chr(10)), string_to_array(:errors, chr(10)))
         as u (id, seq, digest, v, e)
    where c.class_id = :class_id and c.object_id = u.id""")


def measure(run: Run) -> Iterator[Figure]:
    """The first fill, then rebuilds that rewrite every value, beside a bare UPDATE of the same values in such pages."""
    count = max(40_000, run.count(200_000))
    database, broker = run.place.database("tenure_reindex"), run.place.broker(5)
    here = engine(database)
    run.say(f"reindex: making {count} objects")
    class_id = fill(here, count)
    here.dispose()
    with worker(run.place, database, broker, queues="default") as here:
        first = _first_fill(run, here, class_id, count)
        rewritten = [_rebuilt(run, here, class_id, count, number) for number in range(1, run.repeats + 1)]
    here = engine(database)
    try:
        bare = _bare(run, here, class_id, count)
    finally:
        here.dispose()
    conditions = f"{count:,} objects, 5 fields, pages of {PAGE_ROWS:,}"
    against = "bare UPDATE … FROM unnest"
    yield Figure(PART, "rebuild, every value rewritten", "rows/s", Sample(rewritten), against, bare,
                 at_least=20_000, ratio_least=0.5, conditions=conditions)  # fmt: skip
    yield Figure(PART, "first fill, every value new", "rows/s", Sample([first]), against, bare, conditions=conditions)


def _first_fill(run: Run, here: Engine, class_id: int, count: int) -> float:
    run.say("reindex: first fill")
    with here.begin() as connection:
        task = connection.execute(_FIRST, {"class_id": class_id}).scalar_one()
    return count / _seconds(here, task, class_id)


def _rebuilt(run: Run, here: Engine, class_id: int, count: int, number: int) -> float:
    run.say(f"reindex: rebuild {number} of {run.repeats}")
    settled(here, "object_computed_data")
    with here.begin() as connection:
        task = rebuild(connection, CLASS, initiator=BENCH)
    return count / _seconds(here, task.id, class_id)


def _seconds(here: Engine, task: UUID, class_id: int) -> float:
    """From the claim to the end of this task, once it has succeeded and every value is current."""

    def ended() -> Any:
        with here.begin() as connection:
            row = connection.execute(_TASK, {"id": task}).one()
        return row if row[1] is not None else None

    state, finished = until(ended, seconds=120, pace=0.1, what="reindex")
    if state != "succeeded":
        raise BenchError(f"reindex: the task {state}: this run does not count")
    with here.begin() as connection:
        if stale := connection.execute(_STALE, {"class_id": class_id}).scalar_one():
            raise BenchError(f"reindex: {stale} values are not current: this run does not count")
        claimed = [r[0] for r in connection.execute(_CLAIM, {"id": task})]
    if len(claimed) != 1:
        raise BenchError(f"reindex: claimed {len(claimed)} times: this run does not count")
    return float(finished - claimed[0])


def _bare(run: Run, here: Engine, class_id: int, count: int) -> Sample:
    with here.begin() as connection:
        for statement in _COPY:
            connection.execute(text(statement))
    values = []
    for number in range(1, run.repeats + 1):
        run.say(f"reindex: bare UPDATE, run {number} of {run.repeats}")
        settled(here, "bare_values")
        with here.connect() as connection:
            values.append(count / sum(_bare_pages(connection, class_id)))
    return Sample(values)


def _bare_pages(connection: Connection, class_id: int) -> Iterator[float]:
    """Seconds of the UPDATE and its commit, page by page."""
    after = 0
    while True:
        with connection.begin():
            rows = connection.execute(_READ, {"class_id": class_id, "after": after, "rows": PAGE_ROWS}).all()
        if not rows:
            return
        after = rows[-1][0]
        ids, seqs, digests, values, errors = zip(*rows, strict=True)
        page = {
            "class_id": class_id, "revision": 1, "ids": ",".join(map(str, ids)), "seqs": ",".join(map(str, seqs)),
            "digests": ",".join(digests), "values": "\n".join(values), "errors": "\n".join(errors),
        }  # fmt: skip
        began = time.perf_counter()
        with connection.begin():
            if connection.execute(_BARE, page).rowcount != len(rows):
                raise BenchError("reindex: the bare UPDATE missed rows")
        yield time.perf_counter() - began
