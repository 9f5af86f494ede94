"""Objects per second through one scan by a schema: judged by a real worker, with evidence, from its claim to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema_rs
from sqlalchemy import Engine, text

from bench.documents import SCHEMA, fill
from bench.figures import Figure, Sample
from bench.place import engine, settled
from bench.processes import BenchError, until
from bench.run import Run
from bench.worker import worker
from tenure.model.records import Initiator
from tenure_records import impact, propose_schema, show_schema

PART = "validation"
BENCH = Initiator("service", "bench", "bench")
_TASK = text("select state, extract(epoch from finished_at)::float8 from tasks where id = :id")
_CLAIM = text("""select extract(epoch from e.created_at)::float8, a.pid from task_events e
    join task_attempts a on a.task_id = e.task_id where e.task_id = :id and e.verb = 'claim'""")
_PROGRESS = text(
    """select processed, extract(epoch from updated_at)::float8 from task_checkpoints where task_id = :id"""
)
_SOME = text("""select data::text from record_objects o join record_classes c on c.id = o.class_id
    where c.name = :name order by o.id limit 20000""")
_Marks = list[tuple[float, float]]


def measure(run: Run) -> Iterator[Figure]:
    """Small objects, large ones, and whether a scan of many goes as fast at its end as at its start."""
    database, broker = run.place.database("tenure_validation"), run.place.broker(6)
    sizes = {"small": max(50_000, run.count(200_000)), "large": max(5_000, run.count(20_000))}
    many = run.count(1_000_000)
    here = engine(database)
    for name, count in [*sizes.items(), ("many", many)]:
        run.say(f"validation: making {count} {name} objects")
        fill(here, name, count, large=name == "large")
    here.dispose()
    against = "json.loads + jsonschema-rs, in memory"
    with worker(run.place, database, broker, queues="default") as here:
        for name, least in (("small", 60_000), ("large", 20_000)):
            count = sizes[name]
            done = [_scan(run, here, name, count) for _ in range(run.repeats)]
            bytes_each, raw = _raw(run, here, name)
            conditions = f"{count:,} objects of {bytes_each / 1000:.1f} kB, batches of 64"
            yield Figure(PART, f"scan with evidence, {name} objects", "rows/s", Sample([one[0] for one in done]), against,
                         raw, at_least=least, conditions=conditions)  # fmt: skip
        rate, rss, marks = _scan(run, here, "many", many)
    first, last = _rate(marks, 0, 0.1), _rate(marks, 0.9, 1)
    yield Figure(PART, "last tenth of a long scan", "rows/s", Sample([last]), "its first tenth", Sample([first]),
                 ratio_least=0.8, conditions=f"{many:,} small objects, {rate:,.0f} rows/s in all")  # fmt: skip
    yield Figure(PART, "peak memory of the child", "MB", Sample([rss]), at_most=300,
                 conditions=f"VmHWM after {many:,} small and {sizes['large']:,} large objects")  # fmt: skip


def _scan(run: Run, here: Engine, name: str, count: int) -> tuple[float, float, _Marks]:
    """(rows/s, the child's peak in MB, [(objects done, at)]) of a first scan, once all of it counts."""
    run.say(f"validation: scan of {count} {name} objects")
    with here.begin() as connection:
        connection.execute(text("truncate schema_evidence"))  # of the run before: a first scan finds none
    settled(here, "schema_evidence", "record_objects")
    with here.begin() as connection:
        propose_schema(connection, name, SCHEMA, initiator=BENCH)
        task = impact(connection, name, initiator=BENCH).id
    marks: _Marks = []
    state, finished = until(lambda: _ended(here, task, marks), seconds=300, pace=0.05, what="validation")
    if state != "succeeded":
        raise BenchError(f"validation: the task {state}: this run does not count")
    with here.begin() as connection:
        tally = show_schema(connection, name).open[0].tally
        claims = connection.execute(_CLAIM, {"id": task}).all()
    if tally.valid != count or len(claims) != 1:
        raise BenchError(f"validation: {tally}, claimed {len(claims)} times: this run does not count")
    claimed, pid = claims[0]
    return count / (finished - claimed), _peak(pid), [(0.0, claimed), *marks]


def _ended(here: Engine, task: UUID, marks: _Marks) -> Any:
    with here.begin() as connection:
        if (mark := connection.execute(_PROGRESS, {"id": task}).first()) and (not marks or mark[0] > marks[-1][0]):
            marks.append((mark[0], mark[1]))
        row = connection.execute(_TASK, {"id": task}).one()
    return row if row[1] is not None else None


def _rate(marks: _Marks, low: float, high: float) -> float:
    """Rows per second between two shares of the way, by the marks nearest to them."""
    whole = marks[-1][0]
    begin = min(marks, key=lambda mark: abs(mark[0] - low * whole))
    end = min(marks, key=lambda mark: abs(mark[0] - high * whole))
    if end[1] <= begin[1]:
        raise BenchError("validation: too few marks to tell the start from the end")
    return (end[0] - begin[0]) / (end[1] - begin[1])


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise BenchError("validation: no VmHWM on this system")


def _raw(run: Run, here: Engine, name: str) -> tuple[float, Sample]:
    """(bytes an object, rows/s of the bare library) over some of the same texts, read beforehand."""
    with here.begin() as connection:
        bodies = [row[0] for row in connection.execute(_SOME, {"name": name})]
    judge = jsonschema_rs.validator_for(SCHEMA)
    rates = []
    for _ in range(run.repeats):
        began = time.perf_counter()
        if not all(judge.is_valid(json.loads(body)) for body in bodies):
            raise BenchError("validation: the bare library found an object that does not fit")
        rates.append(len(bodies) / (time.perf_counter() - began))
    return sum(map(len, bodies)) / len(bodies), Sample(rates)
