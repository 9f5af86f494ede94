"""The end of an attempt, written whatever it takes: a task and its activity are never left open by their holder.

1. The statement of its verb. A lost connection is no failure of it: it is made again, first of all, and the end written then.
2. What PostgreSQL cannot store (a result, a summary) is left out: failed, with that as its reason.
3. The shortest statement: task, activity and lease, guarded as ever, without the history that may be what refuses.
4. The same on a fresh connection.
5. The log says so at the highest level. The slot is free, nobody renews the lease, and recovery settles it when it has
   expired, without history too if that is refused.
"""

from __future__ import annotations

import psycopg2
import structlog

from tenure.model.records import Claimed, Ended
from tenure.runtime import outcome
from tenure.runtime.hotline import Hotline

_REFUSED = (psycopg2.Error, ValueError)  # by the server; by the driver, which cannot encode it


class Ending:
    """One per executor."""

    def __init__(self, hot: Hotline) -> None:
        self._hot = hot
        self._log = structlog.get_logger("tenure.ending")

    def write(self, claimed: Claimed, how: Ended, result: str | None, summary: str | None) -> Ended | None:
        """What was written. None: the lease is lost, or nothing could be written and recovery is to settle it."""
        try:
            return self._hot.settle(claimed, how, result, summary)
        except _REFUSED as error:
            self._say("end_not_storable", claimed, error)
        try:
            return self._hot.settle(claimed, outcome.UNSTORABLE, None, None)
        except _REFUSED as error:
            self._say("end_refused_by_the_database", claimed, error)  # so it was not what the task said
        for fresh in (False, True):
            try:
                return self._hot.settle_directly(claimed, how, result, summary, fresh=fresh)
            except _REFUSED as error:
                self._say("direct_end_refused", claimed, error)
        self._log.critical("end_not_written", task_id=str(claimed.lease.task_id), token=claimed.lease.token)
        return None

    def rescue(self, error: BaseException) -> None:
        """For a thread that leaves by an exception of ours: what it still has in hand is settled now, as a lost worker's,
        and named. Without it the lease would have to expire."""
        try:
            left = self._hot.abandon()
        except _REFUSED as refused:
            self._log.critical("left_behind", error=type(error).__name__, then=type(refused).__name__)
            return
        for lease in left:
            self._log.error("left_behind", task_id=str(lease.task_id), token=lease.token, error=type(error).__name__)

    def _say(self, what: str, claimed: Claimed, error: Exception) -> None:
        self._log.error(what, task_id=str(claimed.lease.task_id), error=type(error).__name__, tasks=1)
