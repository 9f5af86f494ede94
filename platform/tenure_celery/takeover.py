"""The `beat_schedule` of a Celery app as schedules of ours. Nothing is sent and nothing is written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.app.utils import find_app
from celery.schedules import crontab, schedule
from pydantic import ValidationError

from tenure.importing import is_module_name
from tenure.model.definitions import ScheduleSpec, StepSpec, Taken, Wanted
from tenure.model.errors import InvalidSettings, TenureError, UsageError, shortened
from tenure.model.kinds import KindSpec
from tenure.registry import Registry
from tenure_celery import calls
from tenure_celery.crontabs import line_of
from tenure_celery.errors import UnsupportedByTenure

ORIGIN = "celery"
_FIELDS = ("task", "schedule", "args", "kwargs", "options", "relative")
_CARRIED = ("queue", "priority", "labels", "scope", "deadline")
# About the message, which there will not be.
_NOTHING = ("serializer", "compression", "retry", "retry_policy", "ignore_result", "shadow", "delivery_mode", "immediate", "mandatory")  # fmt: skip
# Said in a note: without it something is different that is not worse.
_NOTED = {
    "expires": "expires is left out: a step's deadline, or `overlap: skip`, keeps occurrences from piling up",
    "relative": "relative is left out: the interval counts from the moment it is taken over",
}


def from_reference(reference: str, kinds: Registry) -> Taken:
    """Of the app that `celery -A` would find. Raises InvalidSettings where there is none, and what `taken` raises."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `celery -A` does
    try:
        app = find_app(reference)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: a module of tasks must not end the process that looks at it
        said = f"{shortened(reference)!r}: no Celery app can be imported ({_why(error)})"
        raise InvalidSettings(f"{said}; write it as for celery -A, as in shop.tasks:app") from None
    if not isinstance(app, Celery):
        raise InvalidSettings(f"{shortened(reference)!r} is no Celery app; write it as for celery -A")
    return taken(app, kinds)


def taken(app: Celery, kinds: Registry) -> Taken:
    """All entries of its `beat_schedule`, those of `add_periodic_task` among them.

    Raises UnsupportedByTenure, UnknownKind, UsageError naming the entry: all can be taken over, or none is.
    """
    specs: list[ScheduleSpec] = []
    notes: list[str] = []
    for name, entry in _entries(app):
        try:
            spec, said = _entry(app, str(name), entry, kinds)
        except TenureError as error:
            raise type(error)(f"beat_schedule entry {shortened(name)!r}: {error}") from None
        specs.append(spec)
        notes += [f"{shortened(name)}: {note}" for note in said]
    origin = f"{ORIGIN}:{app.main}" if app.main else ORIGIN
    return Taken(Wanted(origin, tuple(specs)), tuple(notes))


def _entries(app: Celery) -> list[tuple[str, Any]]:
    """By name, once all that the app names is imported and has had its say."""
    try:
        app.loader.import_default_modules()
        app.finalize()
        return sorted(dict(app.conf.beat_schedule).items())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = f"the Celery app {shortened(app.main or 'without a name')} cannot be set up ({_why(error)})"
        raise InvalidSettings(f"{said}: its configuration, or a module that it includes") from None


def _why(error: BaseException) -> str:
    """The sort of error, and the module that is missing; never foreign text."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and is_module_name(missing):
        return f"no module named {shortened(missing)}"
    return shortened(type(error).__name__)


def _entry(app: Celery, name: str, entry: Any, kinds: Registry) -> tuple[ScheduleSpec, list[str]]:
    fields = (
        {field: getattr(entry, field, None) for field in _FIELDS} if not isinstance(entry, Mapping) else dict(entry)
    )
    if unknown := [field for field in fields if field not in (*_FIELDS, "name", "app")]:
        raise UsageError(f"{shortened(unknown[0])!r} is no field of an entry")
    spec = kinds.spec(str(fields.get("task")))
    options = dict(fields.get("options") or {})
    notes = [note for word, note in _NOTED.items() if options.pop(word, None) or fields.get(word)]
    calls.refuse(spec, fields.get("args"), options)
    step = _step(app, spec, fields.get("kwargs") or {}, options)
    when, relative = _recurrence(app, fields.get("schedule"))
    if relative and _NOTED["relative"] not in notes:
        notes.append(_NOTED["relative"])
    try:
        # Celery sends whatever still runs, and after a pause sends once.
        return ScheduleSpec(name=name, steps=[[step]], overlap="allow", misfire="once", **when), notes
    except ValidationError as error:
        said = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        raise UsageError(shortened(said, 200)) from None


def _recurrence(app: Celery, given: Any) -> tuple[dict[str, Any], bool]:
    """Fields of a spec, and whether the schedule says `relative`. Only Celery's own two sorts: a subclass may mean
    anything."""
    if type(given) is crontab:
        return {"cron": line_of(given), "zone": _zone(app)}, False
    if type(given) is schedule:
        return {"every": given.run_every.total_seconds()}, bool(given.relative)
    if isinstance(given, timedelta):
        return {"every": given.total_seconds()}, False
    if isinstance(given, int | float) and not isinstance(given, bool):
        return {"every": float(given)}, False
    raise UnsupportedByTenure(
        f"a schedule of the sort {shortened(type(given).__name__)} is not supported: crontab, an interval or seconds are"
    )


def _zone(app: Celery) -> str:
    zone = app.timezone
    if name := getattr(zone, "key", None):
        return str(name)
    if str(zone).upper() == "UTC":
        return "UTC"
    raise UnsupportedByTenure("its time zone has no name: set `timezone` to an IANA zone in the app's settings")


def _step(app: Celery, spec: KindSpec, params: Any, options: dict[str, Any]) -> StepSpec:
    if unknown := list(_other(options)):
        raise UnsupportedByTenure(f"option {shortened(unknown[0])!r} cannot be carried over: take it out of the entry")
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UsageError("kwargs hold what JSON cannot carry") from None
    queue = options.get("queue")
    larger_first = not str(app.conf.broker_url or "redis").startswith(("redis", "valkey", "sentinel"))
    try:
        return StepSpec(
            kind=spec.name,
            params=dict(params),
            queue=None if queue is None else str(getattr(queue, "name", queue)),
            priority=calls.priority_of(spec, options.get("priority"), larger_first=larger_first),
            labels=dict(options.get("labels") or {}),
            scope=options.get("scope"),
            deadline=options.get("deadline"),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {shortened(said, 200)}") from None


def _other(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is not None and name not in _CARRIED and name not in _NOTHING:
            yield name
