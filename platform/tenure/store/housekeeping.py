"""What is kept in order by the clock alone: partitions ahead of time, rows of processes long gone."""

from __future__ import annotations

from sqlalchemy import Connection, text

from tenure.store import settings
from tenure.store.advisory import PARTITIONING

MONTHS_AHEAD = 12

_LOCK = text("select pg_try_advisory_xact_lock(:key)")
# It wants the whole table for itself: waiting behind an open transaction, it would hold up every submitter behind it.
_BRIEFLY = text("set local lock_timeout = 1000")
_PARTITIONS = text("select make_history_partitions(:ahead)")
# A lease names its worker: the row stays until recovery has settled it.
_UNSEEN = text("""delete from workers where last_seen < clock_timestamp() - make_interval(secs => :days * 86400)
    and not exists (select 1 from task_leases l where l.worker = workers.boot_id)""")
_PAST_TURNS = text("""delete from exclusive_turns where task_id = any(array(
    select e.task_id from exclusive_turns e where e.until < clock_timestamp() - interval '1 minute'
    for update skip locked))""")


def make_partitions(connection: Connection) -> int:
    """Make the missing monthly partitions; how many. 0 also when another process is at it: two at once would fail one.

    Raises OperationalError after a second in the way of an open transaction: try again later.
    """
    if not connection.execute(_LOCK, {"key": PARTITIONING}).scalar_one():
        return 0
    connection.execute(_BRIEFLY)
    return int(connection.execute(_PARTITIONS, {"ahead": MONTHS_AHEAD}).scalar_one())


def forget_unseen(connection: Connection) -> int:
    """Delete rows of workers and beats unseen for a day (`retention.workers_days`) that hold no lease; how many."""
    return connection.execute(_UNSEEN, {"days": settings.value(connection, settings.KEEP_WORKERS)}).rowcount


def forget_turns(connection: Connection) -> int:
    """Delete the turns of exclusive tasks that are over; how many."""
    return connection.execute(_PAST_TURNS).rowcount
