"""The tables as SQLAlchemy sees them, for reads. The migrations make them; a test holds the two equal."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP

metadata = MetaData()


def _time(name: str) -> Column[object]:
    return Column(name, TIMESTAMP(timezone=True))


def _key(name: str) -> Column[object]:
    return Column(name, Uuid, primary_key=True)


tasks = Table(
    "tasks",
    metadata,
    _key("id"),
    *(Column(n, Text) for n in ("kind", "queue", "state", "outcome", "idempotency_key", "submitter")),
    *(Column(n, Text) for n in ("initiator_type", "initiator_id", "initiator_name", "scope", "on_lost")),
    *(Column(n, Text) for n in ("summary", "error_code", "error_message")),
    *(Column(n, Integer) for n in ("attempt", "max_attempts", "crashes", "step_index")),
    *(Column(n, Boolean) for n in ("exclusive", "keep_params", "plans", "adopted")),
    *(Column(n, Uuid) for n in ("activity_id", "retry_of", "execution_id")),
    *(
        _time(n)
        for n in ("available_at", "start_by", "deadline", "created_at", "started_at", "finished_at", "redacted_at")
    ),
    Column("priority", SmallInteger),
    Column("request_hash", LargeBinary),
    Column("labels", JSONB),
    Column("run_limit", Interval),
)
task_params = Table(
    "task_params", metadata, _key("task_id"), Column("params", JSONB), Column("params_version", SmallInteger)
)
task_results = Table("task_results", metadata, _key("task_id"), Column("result", JSONB))
task_leases = Table(
    "task_leases",
    metadata,
    _key("task_id"),
    Column("token", BigInteger),
    Column("worker", Uuid),
    *(Column(n, Integer) for n in ("pid", "attempt")),
    *(Column(n, Text) for n in ("kind", "queue", "scope")),
    *(Column(n, Boolean) for n in ("exclusive", "phased")),
    *(_time(n) for n in ("acquired", "renewed", "expires", "deadline")),
)
task_checkpoints = Table(
    "task_checkpoints",
    metadata,
    _key("task_id"),
    *(Column(n, BigInteger) for n in ("sequence", "token", "total", "processed", "succeeded", "failed")),
    Column("cursor", JSONB),
    _time("updated_at"),
)
task_stops = Table(
    "task_stops",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("task_id", Uuid),
    *(Column(n, Text) for n in ("asked_by", "reason")),
    _time("created_at"),
)
task_hints = Table(
    "task_hints",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("task_id", Uuid),
    *(Column(n, Text) for n in ("kind", "queue", "scope")),
    Column("priority", SmallInteger),
    *(_time(n) for n in ("turn", "not_before")),
)
task_attempts = Table(
    "task_attempts",
    metadata,
    _key("id"),
    *(_time(n) for n in ("created_at", "ended_at")),
    *(Column(n, Uuid) for n in ("task_id", "worker")),
    *(Column(n, Integer) for n in ("attempt", "pid")),
    Column("token", BigInteger),
    *(Column(n, Text) for n in ("how", "error_code", "error_message")),
    Column("forced", Boolean),
)
task_events = Table(
    "task_events",
    metadata,
    _key("id"),
    _time("created_at"),
    Column("task_id", Uuid),
    *(Column(n, Text) for n in ("verb", "state", "note")),
    Column("token", BigInteger),
)
activities = Table(
    "activities",
    metadata,
    *(Column(n, Uuid, primary_key=n == "id") for n in ("id", "task_id", "parent_id")),
    *(Column(n, Text) for n in ("status", "initiator_type", "initiator_id", "initiator_name", "actor")),
    *(Column(n, Text) for n in ("target_type", "target_id", "target_name", "context")),
    *(Column(n, Text) for n in ("message", "warning_message", "stack")),
    *(_time(n) for n in ("created_at", "executed_at", "ended_at", "expires_at")),
)
activity_items = Table(
    "activity_items",
    metadata,
    _key("id"),
    _time("created_at"),
    *(Column(n, Uuid) for n in ("activity_id", "source_id")),
    *(Column(n, Text) for n in ("change", "object_type", "object_id", "object_name", "error_code", "error_message")),
    Column("unhandled", Boolean),
    *(Column(n, JSONB) for n in ("snapshot", "outcomes")),
)
activity_statistics = Table(
    "activity_statistics",
    metadata,
    *(Column(n, Uuid, primary_key=True) for n in ("activity_id", "source_id")),
    Column("change", Text, primary_key=True),
    Column("nested", Boolean, primary_key=True),
    *(Column(n, BigInteger) for n in ("objects", "errors", "unhandled")),
)
activity_phases = Table(
    "activity_phases",
    metadata,
    *(Column(n, Uuid, primary_key=True) for n in ("activity_id", "task_id")),
    Column("position", SmallInteger, primary_key=True),
    *(Column(n, Text) for n in ("path", "status", "message")),
    *(Column(n, BigInteger) for n in ("done", "total")),
    *(_time(n) for n in ("started_at", "ended_at", "updated_at")),
)
workers = Table(
    "workers",
    metadata,
    _key("boot_id"),
    *(Column(n, Text) for n in ("node", "role", "version", "work", "instance")),
    *(Column(n, Integer) for n in ("pid", "slots")),
    *(Column(n, ARRAY(Text)) for n in ("queues", "kinds")),
    *(_time(n) for n in ("started_at", "last_seen", "ended_at")),
)
