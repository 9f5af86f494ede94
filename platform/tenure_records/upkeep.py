"""What beat keeps in order for records: rebuilds whose task ended without finishing them are started again."""

from __future__ import annotations

from sqlalchemy import Connection

from tenure.model.records import Initiator
from tenure.services.housekeeping import Step
from tenure_records.rebuild import restart_failed

SYSTEM = Initiator("system", "housekeeping", "housekeeping")


def _restart(connection: Connection) -> int:
    return len(restart_failed(connection, initiator=SYSTEM))


RESTART_REBUILDS = Step("records.rebuilds", _restart)
