"""Schedules as rows: what is wanted with its steps, and what run time adds to it. One function per verb."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.definitions import ScheduleSpec, StepSpec
from tenure.model.definitions.spec import DEFAULT_ZONE
from tenure.store.advisory import APPLYING


@dataclass(frozen=True)
class Schedule:
    """One schedule as it stands. Moments are UTC."""

    id: UUID
    spec: ScheduleSpec
    anchor: datetime
    paused_by: str | None
    paused_reason: str | None
    paused_at: datetime | None
    built_in: bool
    origin: str
    next_run_at: datetime | None
    last_due_at: datetime | None
    missed: int
    revision: int
    created_at: datetime
    updated_at: datetime
    updated_by: str

    @property
    def name(self) -> str:
        return self.spec.name


COLUMNS = """s.id, s.name, s.description, s.cron, s.zone, s.every_seconds, s.overlap, s.misfire, s.at_most, s.on_failure,
    s.enabled, s.anchor, s.paused_by, s.paused_reason, s.paused_at, s.built_in, s.origin, s.next_run_at, s.last_due_at,
    s.missed, s.revision, s.created_at, s.updated_at, s.updated_by,
    (select coalesce(json_agg(json_build_object('group_index', t.group_index, 'kind', t.kind, 'params', t.params,
        'on_failure', t.on_failure, 'queue', t.queue, 'priority', t.priority, 'scope', t.scope, 'exclusive', t.exclusive,
        'labels', t.labels, 'deadline', t.deadline_seconds) order by t.position), '[]')
     from schedule_steps t where t.schedule_id = s.id) as steps"""
_SPEC = ("name", "description", "cron", "zone", "overlap", "misfire", "at_most", "on_failure", "enabled")


def of_row(row: Any) -> Schedule:
    """A row of COLUMNS as a schedule. Not validated again: what is not understood here any more must still be shown."""
    found = dict(row)
    values = {name: found.pop(name) for name in _SPEC}
    every = found.pop("every_seconds")
    steps: list[list[StepSpec]] = []
    for step in found.pop("steps"):
        if step.pop("group_index") == len(steps):
            steps.append([])
        steps[-1].append(StepSpec.model_construct(**step))
    manual = every is None and values["cron"] is None
    return Schedule(spec=ScheduleSpec.model_construct(**values, every=every, manual=manual, steps=steps), **found)


def recurs(spec: ScheduleSpec) -> tuple[str | None, str | None, float | None]:
    """(cron, zone, seconds) as they are stored: two specs with the same are due at the same times."""
    if spec.cron is None:
        return None, None, spec.every
    return " ".join(spec.cron.split()), spec.zone or DEFAULT_ZONE, None


def _columns(spec: ScheduleSpec) -> dict[str, Any]:
    cron, zone, every = recurs(spec)
    return {**{name: getattr(spec, name) for name in _SPEC}, "cron": cron, "zone": zone, "every_seconds": every}


_INSERT = text("""insert into schedules (id, name, description, cron, zone, every_seconds, overlap, misfire, at_most, on_failure,
        enabled, anchor, next_run_at, built_in, origin, updated_by)
    values (:id, :name, :description, cast(:cron as text), cast(:zone as text), cast(:every_seconds as float8), :overlap, :misfire,
        cast(:at_most as integer), :on_failure, :enabled, cast(:anchor as timestamptz), cast(:next_run_at as timestamptz),
        :built_in, :origin, :by)
    on conflict (name) do nothing""")
_STEPS = text("""insert into schedule_steps (schedule_id, position, group_index, kind, params, on_failure, queue, priority,
        scope, exclusive, labels, deadline_seconds)
    select :id, r.position, r.group_index, r.kind, r.params, r.on_failure, r.queue, r.priority, r.scope, r.exclusive,
        r.labels, r.deadline
    from json_to_recordset(cast(:rows as json)) as r(position integer, group_index integer, kind text, params jsonb,
        on_failure text, queue text, priority smallint, scope text, exclusive boolean, labels jsonb, deadline float8)""")
_DROP_STEPS = text("delete from schedule_steps where schedule_id = :id")


def insert(
    connection: Connection,
    schedule_id: UUID,
    spec: ScheduleSpec,
    *,
    anchor: datetime,
    next_run_at: datetime | None,
    by: str,
    built_in: bool = False,
    origin: str = "",
) -> bool:
    """Insert a schedule with its steps. False: the name is taken, nothing was written."""
    values = {**_columns(spec), "id": schedule_id, "anchor": anchor, "next_run_at": next_run_at,
              "by": by, "built_in": built_in, "origin": origin}  # fmt: skip
    if connection.execute(_INSERT, values).rowcount != 1:
        return False
    _write_steps(connection, schedule_id, spec)
    return True


def _write_steps(connection: Connection, schedule_id: UUID, spec: ScheduleSpec) -> None:
    placed = [(at, step) for at, group in enumerate(spec.steps) for step in group]
    rows = [{"position": number, "group_index": at, **dict(step)} for number, (at, step) in enumerate(placed)]
    connection.execute(_STEPS, {"id": schedule_id, "rows": json.dumps(rows, ensure_ascii=False, allow_nan=False)})


_CHANGE = text("""update schedules set description = :description, cron = cast(:cron as text), zone = cast(:zone as text),
        every_seconds = cast(:every_seconds as float8), overlap = :overlap, misfire = :misfire,
        at_most = cast(:at_most as integer), on_failure = :on_failure, enabled = :enabled, anchor = :anchor,
        next_run_at = cast(:next_run_at as timestamptz), origin = :origin, revision = revision + 1,
        updated_at = clock_timestamp(), updated_by = :by
    where id = :id and revision = :revision""")


def change(
    connection: Connection,
    before: Schedule,
    spec: ScheduleSpec,
    *,
    anchor: datetime,
    next_run_at: datetime | None,
    origin: str,
    by: str,
) -> bool:
    """Replace what is wanted. False: it is not at `before.revision` any more, nothing was written."""
    values = {**_columns(spec), "id": before.id, "revision": before.revision, "anchor": anchor,
              "next_run_at": next_run_at, "origin": origin, "by": by}  # fmt: skip
    if connection.execute(_CHANGE, values).rowcount != 1:
        return False
    if spec.steps != before.spec.steps:
        connection.execute(_DROP_STEPS, {"id": before.id})
        _write_steps(connection, before.id, spec)
    return True


_PAUSE = text("""update schedules set paused_by = :by, paused_reason = cast(:reason as text), paused_at = clock_timestamp()
    where id = :id and paused_by is null""")
_RESUME = text("""update schedules set paused_by = null, paused_reason = null, paused_at = null,
        next_run_at = cast(:next_run_at as timestamptz)
    where id = :id and paused_by is not null""")
_REMOVE = text("delete from schedules where id = :id and not built_in")


def pause(connection: Connection, schedule_id: UUID, *, by: str, reason: str | None) -> bool:
    """Hold it back. False: it is paused already."""
    return connection.execute(_PAUSE, {"id": schedule_id, "by": by, "reason": reason}).rowcount == 1


def resume(connection: Connection, schedule_id: UUID, *, next_run_at: datetime | None) -> bool:
    """Let it fire again. False: it was not paused, nothing was written."""
    return connection.execute(_RESUME, {"id": schedule_id, "next_run_at": next_run_at}).rowcount == 1


def remove(connection: Connection, schedule_id: UUID) -> bool:
    """Delete it with its steps; what ran stays known. False: it is built in, or gone."""
    return connection.execute(_REMOVE, {"id": schedule_id}).rowcount == 1


_BY_NAME = text(f"select {COLUMNS} from schedules s where s.name = :name")
_BY_NAME_LOCKED = text(f"select {COLUMNS} from schedules s where s.name = :name for no key update")
_LIST = text(
    f"select {COLUMNS} from schedules s where (cast(:origin as text) is null or s.origin = :origin) order by s.name"
)


def by_name(connection: Connection, name: str, *, locked: bool = False) -> Schedule | None:
    """The schedule of this name; `locked`: held until the caller's transaction ends, as whoever starts it does."""
    row = connection.execute(_BY_NAME_LOCKED if locked else _BY_NAME, {"name": name}).mappings().first()
    return None if row is None else of_row(row)


def listing(connection: Connection, *, origin: str | None = None) -> list[Schedule]:
    """All schedules by name; with `origin` those that it keeps."""
    return [of_row(row) for row in connection.execute(_LIST, {"origin": origin}).mappings()]


_HOLD_APPLIERS = text("select pg_advisory_xact_lock(:key)")


def hold_appliers(connection: Connection) -> None:
    """Wait until nobody else compares and changes schedules as a whole, and keep others out until the commit."""
    connection.execute(_HOLD_APPLIERS, {"key": APPLYING})


_NOW = text("select clock_timestamp()")


def now(connection: Connection) -> datetime:
    """The moment, by the database's clock."""
    moment: datetime = connection.execute(_NOW).scalar_one()
    return moment
