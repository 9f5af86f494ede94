"""From the commit of one task to its claim, by an idle worker: sent one at a time, 25 to 50 ms apart."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from uuid import UUID

from sqlalchemy import Connection, text

from bench.contenders.bare_celery import bare_celery
from bench.contenders.procrastinate import procrastinate
from bench.figures import Figure, Sample, quantile
from bench.kinds.noop import QUEUE, noop
from bench.processes import BenchError, until
from bench.run import Run
from bench.worker import worker
from tenure import client
from tenure.model.records import Initiator

PART = "latency"
WARM = 20
_BENCH = Initiator("service", "bench", "bench")
_CLOCK = text("select extract(epoch from clock_timestamp())::float8")
_CLAIMS = text("""select task_id, extract(epoch from created_at)::float8 from task_events
    where verb = 'claim' and task_id = any(:ids)""")
_ENDED = text("select count(*) from tasks where state = 'succeeded'")


def measure(run: Run) -> Iterator[Figure]:
    """Ours beside bare Celery's send → start and procrastinate's defer → start."""
    n = max(200, run.count(400))
    ours, celery = _tenure(run, n), _bare_celery(run, n)
    theirs = [] if run.quick else _procrastinate(run, n)
    for name, share, most in (("p50", 0.5, 5.0), ("p99", 0.99, 15.0)):
        mine = Sample([quantile(ours, share)])
        details = f"{n} samples"
        yield Figure(PART, f"commit → claim {name}", "ms", mine, "bare Celery, send → body",
                     Sample([quantile(celery, share)]), at_most=most, conditions=details)  # fmt: skip
        if theirs:
            yield Figure(PART, f"commit → claim {name}", "ms", mine, "procrastinate, commit → fetch",
                         Sample([quantile(theirs, share)]), conditions=details)  # fmt: skip


def _paced(run: Run, name: str, n: int, once: Callable[[int], None]) -> None:
    """Irregular gaps, so that no poll of ours or theirs falls into step."""
    draw = random.Random(7)
    for index in range(n):
        if index % 50 == 0:
            run.say(f"latency: {name}, {index} of {n} tasks")
        once(index)
        time.sleep(draw.uniform(0.025, 0.05))


def _tenure(run: Run, n: int) -> list[float]:
    database, broker = run.place.database("tenure_latency"), run.place.broker(3)
    run.say("latency: starting a Tenure worker")
    committed: dict[UUID, float] = {}
    with worker(run.place, database, broker, queues=QUEUE) as here, here.connect() as connection:

        def once(_: int) -> None:
            made, at = _submitted(connection)
            committed[made] = at

        def ended() -> bool:
            with connection.begin():
                return int(connection.execute(_ENDED).scalar_one()) == len(committed)

        _paced(run, "Tenure", WARM + n, once)
        until(ended, seconds=20, what="latency: Tenure")
        with connection.begin():
            claims = {r[0]: r[1] for r in connection.execute(_CLAIMS, {"ids": list(committed)})}
    if len(claims) != len(committed):
        raise BenchError(f"latency: {len(claims)} claims of {len(committed)} tasks: this run does not count")
    return [(claims[one] - at) * 1000 for one, at in list(committed.items())[WARM:]]


def _submitted(connection: Connection) -> tuple[UUID, float]:
    """A task as an application submits it, and the database's clock right after its commit."""
    with connection.begin():
        made = client.submit(connection, noop, initiator=_BENCH)
    with connection.begin():
        return made.id, connection.execute(_CLOCK).scalar_one()


def _bare_celery(run: Run, n: int) -> list[float]:
    bare = bare_celery(run.place)
    sent: list[float] = []
    with bare.worker():
        bare.forget()
        bare.send(1)
        bare.wait(1)
        bare.forget()

        def once(index: int) -> None:
            bare.send_one(index)
            sent.append(time.time())

        _paced(run, "bare Celery", WARM + n, once)
        started = bare.wait(WARM + n)
    return [(started[index] - at) * 1000 for index, at in enumerate(sent)][WARM:]


def _procrastinate(run: Run, n: int) -> list[float]:
    sent: dict[int, float] = {}
    with procrastinate(run.place) as theirs, theirs.workers():
        theirs.rate(1)

        def once(_: int) -> None:
            job, at = theirs.defer()
            sent[job] = at

        _paced(run, "procrastinate", WARM + n, once)
        theirs.wait()
        started = theirs.times("started", list(sent))
    return [(started[job] - at) * 1000 for job, at in list(sent.items())[WARM:]]
