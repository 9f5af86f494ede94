"""What beat keeps in order for records: rebuilds whose task ended without finishing them are started again."""

from __future__ import annotations

from sqlalchemy import Connection

from tenure.model.records import Initiator
from tenure.services.housekeeping import Step
from tenure_records.rebuild import restart_failed

SYSTEM = Initiator("system", "housekeeping", "housekeeping")


def _restart(connection: Connection) -> int:
    return len(restart_failed(connection, initiator=SYSTEM))


# How a rebuild that did not finish ended says whether it is started again: its task is kept for that (`tenure.retention`).
UNFINISHED_REBUILD = """exists (select 1 from class_computation_state s
    where s.active_task_id = {t}.id and s.rebuild_status = 'rebuilding')"""

RESTART_REBUILDS = Step("records.rebuilds", _restart)
