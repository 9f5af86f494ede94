"""Schedules as a test makes them, and what SQL tells of their executions afterwards."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from tenure import registry, schedules
from tenure.model.definitions import ScheduleSpec, StepSpec
from tenure.registry import Registry
from tenure.runtime.advancing import Advancer
from tenure.services.scheduler import Scheduler
from tenure.settings import Settings
from tests.support import tasks
from tests.support.databases import Database
from tests.support.executing import executor

Group = Sequence[StepSpec | str]
STEPS = "tests.support.steps"


def spec(name: str, *groups: Group | str, **options: Any) -> ScheduleSpec:
    """One step per name, one group per argument; every minute unless it says otherwise."""
    if not {"cron", "every", "manual"} & options.keys():
        options["every"] = 60.0
    if options.get("misfire") == "all":
        options.setdefault("at_most", 3)
    steps = [list(group) if not isinstance(group, str) else group for group in groups or ("step.ok",)]
    return ScheduleSpec(name=name, steps=steps, **options)


def step(kind: str = "step.ok", **options: Any) -> StepSpec:
    return StepSpec(kind=kind, **options)


def add(database: Database, name: str = "nightly", *groups: Group | str, **options: Any) -> UUID:
    """A committed schedule of ada's."""
    with database.engine.begin() as connection:
        return schedules.add(connection, spec(name, *groups, **options), initiator=tasks.ADA)


def let_come(database: Database, name: str = "nightly", ago: timedelta = timedelta()) -> None:
    """Its next occurrence was due `ago`."""
    statement = "update schedules set next_run_at = clock_timestamp() - cast(:ago as interval) where name = :name"
    assert tasks.run_sql(database, statement, name=name, ago=ago) == 1


def kinds() -> Registry:
    """What `tests.support.steps` declares."""
    return registry.load((STEPS,))


@contextmanager
def scheduler(database: Database, known: Registry | None = None, **options: Any) -> Iterator[Scheduler]:
    """A beat's scheduler, stepped by the test."""
    service = Scheduler(Settings(database_url=database.url), known or kinds(), **options)
    try:
        yield service
    finally:
        service.close()


def fire(database: Database) -> int:
    """One round of a scheduler; how many executions there are after it."""
    with scheduler(database) as service:
        service.run_once()
    return len(executions(database))


def work(database: Database) -> int:
    """Run every queued task by a real executor, until none is left; how many ran."""
    done = 0
    named = kinds()
    with executor(database, *(named.kind(name) for name in named.names)) as made:
        while queued := rows(database, "select id from tasks where state = 'queued' order by id"):
            done += sum(made.run(row[0]) for row in queued)
    return done


@contextmanager
def advancer(database: Database) -> Iterator[Advancer]:
    made = Advancer(database.url, application="test advance")
    try:
        yield made
    finally:
        made.close()


def rows(database: Database, statement: str, **values: Any) -> list[Any]:
    with database.engine.connect() as connection:
        return list(connection.execute(text(statement), values).all())


def executions(database: Database) -> list[tuple[str, str | None]]:
    """(state, reason) of each, oldest first."""
    return [(row[0], row[1]) for row in rows(database, "select state, reason from executions order by due_at, id")]


def members(database: Database, execution_id: UUID | None = None) -> list[tuple[int, str]]:
    """(group, state) of the tasks of one execution, or of all."""
    statement = """select step_index, state from tasks where execution_id = coalesce(cast(:id as uuid), execution_id)
        order by step_index, id"""
    return [(row[0], row[1]) for row in rows(database, statement, id=execution_id)]
