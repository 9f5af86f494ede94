"""What beat keeps in order for records: rebuilds that did not finish are started again; and their built-in schedules."""

from __future__ import annotations

from sqlalchemy import Connection

from tenure.model.definitions import ScheduleSpec, StepSpec
from tenure.model.records import Initiator
from tenure.services.housekeeping import Step
from tenure_records.kinds import RECORDS_RETENTION, RECORDS_REVALIDATION
from tenure_records.rebuild import restart_failed

SYSTEM = Initiator("system", "housekeeping", "housekeeping")


def _restart(connection: Connection) -> int:
    return len(restart_failed(connection, initiator=SYSTEM))


# How a rebuild that did not finish ended says whether it is started again: its task is kept for that (`tenure.retention`).
UNFINISHED_REBUILD = """exists (select 1 from class_computation_state s
    where s.active_task_id = {t}.id and s.rebuild_status = 'rebuilding' offset 0)"""

RESTART_REBUILDS = Step("records.rebuilds", _restart)

SCHEDULES = (
    ScheduleSpec(
        name=RECORDS_RETENTION.name,
        description="Deletes the objects that their class does not keep any longer, and old evidence.",
        every=3600.0,
        steps=[[StepSpec(kind=RECORDS_RETENTION.name)]],
    ),
    ScheduleSpec(
        name=RECORDS_REVALIDATION.name,
        description="Judges every class by its active schema again. Off until somebody enables it.",
        every=86_400.0,
        steps=[[StepSpec(kind=RECORDS_REVALIDATION.name)]],
        enabled=False,
    ),
)
