"""What one renewal costs: one statement for all leases of a worker, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

from sqlalchemy import Connection, Engine, text

from bench import bulk
from bench.figures import Figure, Sample
from bench.kinds.noop import noop
from bench.place import engine
from bench.processes import BenchError
from bench.run import Run
from tenure.store import leases

PART = "renewal"
LEASE_SECONDS = 30.0
ROUNDS = 10
COUNTS = (100, 1_000, 10_000)

# Leases as a claim writes them, long enough not to run out here.
_LEASE = text("""with
    t as (update tasks set state = 'running', attempt = 1, started_at = clock_timestamp() where submitter = :run
          returning id, kind, queue, attempt)
    insert into task_leases (task_id, token, worker, pid, kind, queue, attempt, acquired, renewed, expires)
    select id, nextval('lease_token'), :worker, 1, kind, queue, attempt, clock_timestamp() - interval '1 minute',
           clock_timestamp(), clock_timestamp() + interval '10 minutes' from t returning token""")
_BARE = text("""update task_leases set renewed = clock_timestamp(),
    expires = clock_timestamp() + make_interval(secs => :lease_seconds) where worker = :worker""")
_FLUSH = text("select pg_stat_force_next_flush()")
_HOT = text("select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'task_leases'")


def measure(run: Run) -> Iterator[Figure]:
    """Each count beside a bare UPDATE of the same rows, which checks no token and answers nothing."""
    for count in COUNTS:
        run.say(f"renewal: {count} leases")
        here = engine(run.place.database("tenure_renewal"))
        try:
            yield _of(here, count)
        finally:
            here.dispose()


def _of(here: Engine, count: int) -> Figure:
    worker = uuid4()
    with here.connect() as connection:
        tokens = _held(connection, worker, count)
        before = _updates(connection)

        def renew() -> None:
            found = leases.renew(connection, worker, tokens, lease_seconds=LEASE_SECONDS, grace=5.0)
            if sum(one.renewed for one in found) != count:
                raise BenchError(f"renewal: not all of {count} leases were renewed")

        def bare() -> None:
            if connection.execute(_BARE, {"worker": worker, "lease_seconds": LEASE_SECONDS}).rowcount != count:
                raise BenchError("renewal: the bare UPDATE missed rows")

        ours = _timed(connection, renew)
        after = _updates(connection)
        theirs = _timed(connection, bare)
    hot = (after[1] - before[1]) / (after[0] - before[0])
    return Figure(
        PART, f"{count:,} leases, one round", "ms", Sample(ours), "bare UPDATE of the rows", Sample(theirs),
        at_most=100.0 if count == COUNTS[-1] else None, conditions=f"{hot:.0%} HOT updates", details={"hot": hot},
    )  # fmt: skip


def _held(connection: Connection, worker: UUID, count: int) -> list[int]:
    run = f"renewal of {count}"
    bulk.submit(connection, noop, count, run)
    with connection.begin():
        connection.execute(text("delete from task_hints"))
        tokens = [r[0] for r in connection.execute(_LEASE, {"run": run, "worker": worker})]
    with connection.begin():
        connection.execute(text("analyze"))
    return tokens


def _timed(connection: Connection, action: Callable[[], None]) -> list[float]:
    """Milliseconds of each round with its commit, after one that does not count."""
    values: list[float] = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        with connection.begin():
            action()
        values.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05)
    return values[1:]


def _updates(connection: Connection) -> tuple[int, int]:
    """(updates, HOT updates) of the lease table so far."""
    with connection.begin():
        connection.execute(_FLUSH)
    with connection.begin():
        row = connection.execute(_HOT).one()
    return int(row[0]), int(row[1])
