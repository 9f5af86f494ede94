"""No-op tasks per second: the whole path of a task around an empty body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from sqlalchemy import Engine

from bench import bulk
from bench.aged import age
from bench.contenders.bare_celery import bare_celery
from bench.contenders.procrastinate import procrastinate
from bench.figures import Figure, Sample
from bench.kinds.noop import QUEUE, noop, tiny
from bench.place import engine, settled
from bench.processes import process
from bench.run import Run
from bench.worker import SLOTS, worker
from tenure.model.kinds import Kind

PART = "noop"
WARM = 200


def measure(run: Run) -> Iterator[Figure]:
    """Ours with and without batches, beside bare Celery, procrastinate, and the same statements in a bare loop."""
    one, eight = _tenure(run)
    ended = 50_000 if run.quick else 1_000_000
    aged_one, aged_eight = _tenure(run, ended)
    celery = _bare_celery(run)
    floor_one, floor_eight = _floor(run, noop, 1), _floor(run, tiny, 8)
    theirs = _procrastinate(run)
    fastest = max(celery, key=lambda name: celery[name].median)
    for name, sample in celery.items():
        against = f"bare Celery, {name}"
        # The aim is held against the faster of the two ways to feed bare Celery.
        least = (2.0, 10.0) if name == fastest else (None, None)
        yield Figure(PART, "one at a time", "tasks/s", one, against, sample, ratio_least=least[0])
        yield Figure(PART, "batch of 8", "tasks/s", eight, against, sample, ratio_least=least[1])
    against = f"bare Celery, {fastest}"
    beside = f"beside {ended:,} ended tasks"
    yield Figure(PART, f"one at a time, {beside}", "tasks/s", aged_one, against, celery[fastest], ratio_least=2.0)
    yield Figure(PART, f"batch of 8, {beside}", "tasks/s", aged_eight, against, celery[fastest], ratio_least=10.0)
    for name, sample in theirs.items():
        yield Figure(PART, "one at a time", "tasks/s", one, f"procrastinate, {name}", sample)
    yield Figure(PART, "one at a time", "tasks/s", one, f"its SQL alone, {SLOTS} loops", floor_one)
    yield Figure(PART, "batch of 8", "tasks/s", eight, f"its SQL alone, {SLOTS} loops", floor_eight)


def _repeated(run: Run, here: Engine, kind: Kind, full: int, name: str) -> Sample:
    warm = [bulk.measured(here, kind, WARM, f"{name} warm-up {number}") for number in (1, 2)]
    n = run.sized(warm[1], full)
    values: list[float] = []
    for number in range(1, run.repeats + 1):
        settled(here, "tasks", "task_params", "task_leases", "task_hints", "activities")
        run.say(f"noop: {name}, {n} tasks, run {number} of {run.repeats}")
        values.append(bulk.measured(here, kind, n, f"{name} {number}"))
    return Sample(values)


def _tenure(run: Run, ended: int = 0) -> tuple[Sample, Sample]:
    database, broker = run.place.database("tenure_noop"), run.place.broker(1)
    if ended:
        run.say(f"noop: making {ended:,} ended tasks")
        old = engine(database)
        age(old, ended)
        old.dispose()
    run.say("noop: starting a Tenure worker")
    with worker(run.place, database, broker, queues=QUEUE) as here:
        one = _repeated(run, here, noop, 5000, "Tenure one at a time")
        eight = _repeated(run, here, tiny, 20000, "Tenure batch of 8")
    return one, eight


def _floor(run: Run, kind: Kind, k: int) -> Sample:
    database = run.place.database("tenure_floor")
    name = kind.spec.name.rpartition(".")[2]
    here = engine(database)
    environment = {"TENURE_DATABASE_URL": database}
    with ExitStack() as stack:
        stack.callback(here.dispose)
        for number in range(SLOTS):
            command = ["-m", "bench.contenders.loop", name, str(k)]
            stack.enter_context(process(f"loop-{number}", command, logs=run.place.home, environment=environment))
        return _repeated(run, here, kind, 5000 if k == 1 else 20000, f"SQL alone by {k}")


def _bare_celery(run: Run) -> dict[str, Sample]:
    bare = bare_celery(run.place)
    with bare.worker():
        bare.published_while_running(WARM)
        n = run.sized(bare.published_while_running(WARM), 2500)
        running = []
        for number in range(1, run.repeats + 1):
            run.say(f"noop: bare Celery, {n} tasks sent while it runs, run {number} of {run.repeats}")
            running.append(bare.published_while_running(n))
    filled = []
    for number in range(1, run.repeats + 1):
        run.say(f"noop: bare Celery, {n} tasks sent beforehand, run {number} of {run.repeats}")
        filled.append(bare.queue_filled_beforehand(n))
    return {"sent while it runs": Sample(running), "queue filled beforehand": Sample(filled)}


def _procrastinate(run: Run) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    with procrastinate(run.place) as theirs:
        for concurrency in (1,) if run.quick else (1, 10):
            name = f"{SLOTS} processes × {concurrency}"
            with theirs.workers(concurrency=concurrency):
                theirs.rate(WARM)
                n = run.sized(theirs.rate(WARM), 2000)
                values = []
                for number in range(1, run.repeats + 1):
                    run.say(f"noop: procrastinate, {name}, {n} tasks, run {number} of {run.repeats}")
                    values.append(theirs.rate(n))
            samples[name] = Sample(values)
    return samples
