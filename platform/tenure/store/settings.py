"""Run-time settings: a typed catalogue, and the table service_settings for what differs from its defaults.

A setting is here only when something reads it. What a process needs to start is in tenure/settings.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from tenure.model.errors import UsageError, shortened


@dataclass(frozen=True)
class RuntimeSetting:
    """One setting: numbers only so far. `whole` says that a fraction makes no sense."""

    name: str
    default: float
    unit: str
    least: float
    most: float
    reason: str
    whole: bool = False

    def parse(self, typed: str) -> float:
        """The value as typed. Raises UsageError that names the setting, its unit and its bounds."""
        try:
            value = float(typed)
        except ValueError:
            value = math.nan
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            kind = "a whole number" if self.whole else "a number"
            raise UsageError(
                f"{self.name}: {shortened(typed)!r} is refused: {kind} of {self.unit} from {self.least:.15g} to {self.most:.15g}"
            )
        return value


WORKER_OVERDUE = RuntimeSetting(
    "workers.overdue_seconds", 15, "seconds", 6, 3600,
    "A worker not seen for so long counts as gone for `why`, `workers list` and `doctor`; it writes every 5 s.",
)  # fmt: skip
LONG_TRANSACTION = RuntimeSetting(
    "doctor.transaction_seconds", 60, "seconds", 1, 86400,
    "Transactions older than this are named by `doctor`: they hold back vacuum, and renewals stop being cheap.",
)  # fmt: skip
PARTITIONS_AHEAD = RuntimeSetting(
    "doctor.partitions_ahead", 2, "months", 1, 24,
    "`doctor` warns below so many prepared months of history: without a partition no task can be submitted.", whole=True,
)  # fmt: skip
AGEING = RuntimeSetting(
    "dispatch.ageing_seconds", 60, "seconds", 0.001, 86400,
    "Waiting so long is worth one step of priority, so that nothing waits for ever. Holds for tasks queued from then on.",
)  # fmt: skip
UNKNOWN_KIND = RuntimeSetting(
    "tasks.unknown_kind_days", 7, "days", 0, 3650,
    "A task that was due so long ago, of a kind that no worker knows, fails with that as its reason. 0: it waits for ever.",
)  # fmt: skip
VALIDATION_ROWS = RuntimeSetting(
    "records.validation_rows", 64, "objects", 1, 10_000,
    "A scan by a schema reads so many objects at once at most. Holds for scans asked for from then on.", whole=True,
)  # fmt: skip
VALIDATION_BYTES = RuntimeSetting(
    "records.validation_bytes", 8_388_608, "bytes", 1_024, 268_435_456,
    "A scan by a schema reads so much JSON text at once at most, or one object.", whole=True,
)  # fmt: skip
OBJECT_BYTES = RuntimeSetting(
    "records.object_bytes", 1_048_576, "bytes", 1_024, 16_777_216,
    "A larger object is not inspected, and keeps a schema from becoming strict. Fixed for a schema when it is proposed.",
    whole=True,
)  # fmt: skip
_FOR_EVER = 36500  # days


def _kept(name: str, days: float, reason: str, least: float = 0) -> RuntimeSetting:
    return RuntimeSetting(f"retention.{name}_days", days, "days", least, _FOR_EVER, reason)


KEEP_TASKS = _kept(
    "tasks",
    90,
    "Ended tasks go after this, with params, result and checkpoint; their idempotency keys are free then. 0: never.",
)
KEEP_EXECUTIONS = _kept(
    "executions", 90, "Ended executions of schedules go after this, once their tasks have. 0: never."
)
KEEP_ACTIVITIES = _kept(
    "activities", 365, "Ended activities go after this, with phases and items, never before their tasks. 0: never."
)
KEEP_EVENTS = _kept("events", 90, "The history of tasks goes after this, by whole months from 31 days on. 0: never.")
KEEP_ATTEMPTS = _kept("attempts", 90, "Attempts of tasks go after this, by whole months from 31 days on. 0: never.")
KEEP_TOMBSTONES = _kept(
    "tombstones",
    7,
    "Ids of purged tasks that came as messages are known for so long; a broker redelivers for hours.",
    1,
)
KEEP_WORKERS = _kept(
    "workers", 1, "Rows of processes unseen for so long go, by housekeeping, once they hold no lease.", 0.05
)
KEEP_EVIDENCE = _kept(
    "evidence", 30, "What objects were by a schema goes so long after the schema was retired. 0: never."
)
RETENTION_BUDGET = RuntimeSetting(
    "retention.budget_seconds", 600, "seconds", 1, 86400,
    "So long one run of `platform.retention` or `records.retention` deletes; the rest is for the next run.",
)  # fmt: skip
CATALOGUE = {
    setting.name: setting
    for setting in sorted((
        AGEING, LONG_TRANSACTION, OBJECT_BYTES, PARTITIONS_AHEAD, VALIDATION_BYTES, VALIDATION_ROWS, KEEP_ACTIVITIES,
        KEEP_ATTEMPTS, RETENTION_BUDGET, UNKNOWN_KIND, KEEP_EVENTS, KEEP_EVIDENCE, KEEP_EXECUTIONS, KEEP_TASKS, KEEP_TOMBSTONES, KEEP_WORKERS,
        WORKER_OVERDUE,
    ), key=attrgetter("name"))
}  # fmt: skip

_READ = text("select name, value, updated_at, updated_by from service_settings")
_SET = text("""insert into service_settings (name, value, updated_by) values (:name, :value, :by)
    on conflict (name) do update set value = excluded.value, updated_by = excluded.updated_by,
        updated_at = clock_timestamp()""").bindparams(bindparam("value", type_=JSONB))
_RESET = text("delete from service_settings where name = :name")


def named(name: str) -> RuntimeSetting:
    """The setting of that name. Raises UsageError naming those there are."""
    if name not in CATALOGUE:
        raise UsageError(f"unknown setting {shortened(name)!r}: there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def value(connection: Connection, setting: RuntimeSetting) -> float:
    """What holds now: the stored value, or the default when there is none or it is out of bounds."""
    stored = connection.execute(
        text("select value from service_settings where name = :name"), {"name": setting.name}
    ).scalar()
    if isinstance(stored, bool) or not isinstance(stored, int | float):
        return setting.default
    return float(stored) if setting.least <= stored <= setting.most else setting.default


def store(connection: Connection, setting: RuntimeSetting, new: float | None, *, by: str) -> None:
    """Keep a value (already parsed), or with None go back to the default."""
    if new is None:
        connection.execute(_RESET, {"name": setting.name})
    else:
        connection.execute(_SET, {"name": setting.name, "value": int(new) if setting.whole else new, "by": by})


def listing(connection: Connection) -> list[dict[str, Any]]:
    """The catalogue with the value that holds, whether it was set, by whom and when."""
    stored = {row["name"]: row for row in connection.execute(_READ).mappings()}
    listed = []
    for setting in CATALOGUE.values():
        row = stored.get(setting.name)
        listed.append(
            {
                "name": setting.name,
                "value": row["value"] if row else setting.default,
                "default": setting.default,
                "unit": setting.unit,
                "set": row is not None,
                "updated_at": row and row["updated_at"],
                "updated_by": row and row["updated_by"],
                "reason": setting.reason,
            }
        )
    return listed
