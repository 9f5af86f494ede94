"""Tasks submitted per second, one by one and by the batch, beside a floor that checks nothing and hashes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from pydantic import BaseModel
from sqlalchemy import Engine, text

from bench import bulk
from bench.figures import Figure, Sample
from bench.kinds.noop import noop
from bench.place import engine, settled
from bench.run import Run
from tenure import client
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator

PART = "submit"
TABLES = ("tasks", "task_params", "activities", "task_events", "task_hints")
BATCH = 1000
ME = Initiator("service", "bench", "bench")


class Order(BaseModel):
    """Params as an application has them: a few fields, with a default."""

    customer: str
    lines: list[int]
    express: bool = False


SPEC = KindSpec("bench.order", params=Order)
_NARROW = text("insert into bench_narrow (note) values (:note)")


def measure(run: Run) -> Iterator[Figure]:
    """One by one in a commit each, and a thousand to a commit; rows count all tables that a task is written to."""
    with ExitStack() as stack:
        here = engine(run.place.database("tenure_submit"))
        stack.callback(here.dispose)
        with here.begin() as connection:
            connection.execute(
                text("create table bench_narrow (id bigint generated always as identity primary key, note text)")
            )
        one = _repeated(run, here, "one by one", run.count(1500), lambda n: _singly(here, n))
        floor_one = _repeated(run, here, "a row and a commit", run.count(1500), lambda n: _narrow(here, n))
        many = _repeated(run, here, "by the batch", run.count(20_000), lambda n: _batches(here, n))
        floor_many = _repeated(run, here, "its SQL alone", run.count(20_000), lambda n: _plain(here, n))
    yield Figure(PART, "one by one", "tasks/s", one, "a row and a commit", floor_one, at_least=1500)
    rows, floor_rows = (Sample([len(TABLES) * value for value in sample.values]) for sample in (many, floor_many))
    against = "INSERT … SELECT without params"
    yield Figure(PART, f"{BATCH} to a commit", "rows/s", rows, against, floor_rows, at_least=40_000)


def _repeated(run: Run, here: Engine, name: str, n: int, submit: Callable[[int], None]) -> Sample:
    submit(BATCH)
    values: list[float] = []
    for number in range(1, run.repeats + 1):
        settled(here, *TABLES)
        run.say(f"submit: {name}, {n} tasks, run {number} of {run.repeats}")
        began = time.perf_counter()
        submit(n)
        values.append(n / (time.perf_counter() - began))
    return Sample(values)


def _params(number: int) -> dict[str, object]:
    return {"customer": f"customer {number}", "lines": [number, number + 1]}


def _singly(here: Engine, n: int) -> None:
    with here.connect() as connection:
        for number in range(n):
            with connection.begin():
                client.submit(connection, SPEC, _params(number), initiator=ME)


def _narrow(here: Engine, n: int) -> None:
    with here.connect() as connection:
        for number in range(n):
            with connection.begin():
                connection.execute(_NARROW, {"note": f"customer {number}"})


def _batches(here: Engine, n: int) -> None:
    with here.connect() as connection:
        for start in range(0, n, BATCH):
            with connection.begin():
                client.submit_many(connection, SPEC, map(_params, range(start, min(start + BATCH, n))), initiator=ME)


def _plain(here: Engine, n: int) -> None:
    with here.connect() as connection:
        for start in range(0, n, BATCH):
            bulk.submit(connection, noop, min(BATCH, n - start), "floor")
