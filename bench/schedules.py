"""What schedules cost and how late they are: beats as real processes, the database's clock.

Idle: ten thousand schedules of which none is due. Busy: a hundred due in each second, at the same moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import Engine, text

from bench.figures import Figure, Sample, quantile
from bench.place import engine
from bench.processes import process, until
from bench.run import Run

PART = "schedules"
MANY = 10_000
DUE = 100  # in each second
IDLE_SECONDS = 20.0
BUSY_SECONDS = 20.0
BEAT = ("-m", "celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "WARNING")

_ADD = text("""with s as (insert into schedules (id, name, every_seconds, anchor, next_run_at, overlap, updated_by)
        select uuidv7(), :name || ' ' || n, :every, clock_timestamp(), cast(:first as timestamptz), 'allow', 'bench'
        from generate_series(1, :count) n returning id)
    insert into schedule_steps (schedule_id, position, group_index, kind) select id, 0, 0, 'noop' from s""")
_FIRST = text("select date_trunc('second', clock_timestamp()) + interval '3 seconds'")
_LATE = text("select extract(epoch from created_at - due_at)::float8 from executions order by 1")
_BACKENDS = text(
    """select pid from pg_stat_activity where datname = current_database() and application_name like 'tenure %'"""
)


def measure(run: Run) -> Iterator[Figure]:
    """The cost of beats that have nothing to fire, then how late occurrences start that are due at once."""
    here = engine(run.place.database("tenure_schedules"))
    try:
        for beats in (1, 3):
            yield _idle(run, here, beats)
        for beats in (1, 3):
            yield _busy(run, here, beats)
    finally:
        here.dispose()


def _beats(run: Run, stack: ExitStack, here: Engine, count: int) -> list[int]:
    """Start beats and wait until each of them is seen; their pids."""
    pids: list[int] = []
    for number in range(count):
        environment = {
            "TENURE_DATABASE_URL": here.url.render_as_string(hide_password=False),
            "TENURE_BROKER_URL": run.place.broker(1),
            "TENURE_KINDS": "bench.kinds",
            "TENURE_HOME": str(run.place.home / f"beat-{number}"),
        }
        started = process(f"beat-{number}", BEAT, logs=run.place.home, environment=environment)
        pids.append(stack.enter_context(started).pid)
    seen = text("select count(*) from workers where role = 'beat' and ended_at is null")

    def all_seen() -> bool:
        with here.connect() as connection:
            return int(connection.execute(seen).scalar_one()) >= count

    until(all_seen, seconds=60, what="beats")
    return pids


def _idle(run: Run, here: Engine, beats: int) -> Figure:
    run.say(f"schedules: {MANY} idle, {beats} beats")
    _clear(here)
    with here.begin() as connection:
        connection.execute(_ADD, {"name": "idle", "every": 86_400.0, "first": "2200-01-01T00:00:00Z", "count": MANY})
        connection.execute(text("analyze"))
    with ExitStack() as stack:
        pids = _beats(run, stack, here, beats)
        time.sleep(3)  # what a start costs is not what idling costs
        with here.connect() as connection:
            backends = list(connection.execute(_BACKENDS).scalars())
        before, began = _cpu([*pids, *backends]), time.monotonic()
        time.sleep(IDLE_SECONDS / 2 if run.quick else IDLE_SECONDS)
        spent, took = _cpu([*pids, *backends]) - before, time.monotonic() - began
    return Figure(
        PART, f"{MANY:,} idle schedules, {beats} beat{'s' if beats > 1 else ''}", "% of a core", Sample([100 * spent / took]),
        at_most=1.0 * beats, conditions="beats and their sessions",
    )  # fmt: skip


def _busy(run: Run, here: Engine, beats: int) -> Figure:
    run.say(f"schedules: {DUE} due at once in each second, {beats} beats")
    _clear(here)
    seconds = run.count(int(BUSY_SECONDS))
    with ExitStack() as stack:
        _beats(run, stack, here, beats)
        with here.begin() as connection:
            connection.execute(
                _ADD, {"name": "idle", "every": 86_400.0, "first": "2200-01-01T00:00:00Z", "count": MANY}
            )
            first = connection.execute(_FIRST).scalar_one()
            connection.execute(_ADD, {"name": "busy", "every": 1.0, "first": first, "count": DUE})
        time.sleep(seconds)
        late = _lateness(here)
    return Figure(
        PART, f"{DUE} due in the same moment of each second, {beats} beat{'s' if beats > 1 else ''}", "ms p99",
        Sample([1000 * quantile(late, 0.99)]), at_most=250.0,
        conditions=f"p50 {1000 * quantile(late, 0.5):.0f} ms, max {1000 * late[-1]:.0f} ms, n {len(late):,}",
    )  # fmt: skip


def _lateness(here: Engine) -> Sequence[float]:
    with here.connect() as connection:
        return list(connection.execute(_LATE).scalars())


def _clear(here: Engine) -> None:
    tables = "schedules, schedule_steps, executions, execution_due, tasks, task_params, task_hints, activities"
    with here.begin() as connection:
        connection.execute(text(f"truncate {tables} cascade"))
        connection.execute(text("delete from workers"))


def _cpu(pids: Sequence[int]) -> float:
    """Seconds of CPU that these processes have used; one that is gone has used none."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
