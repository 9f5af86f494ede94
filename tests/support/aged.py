"""What only time would make: ended tasks with their activities and history, and months long past."""

from uuid import UUID

from sqlalchemy import text

from tenure.store import settings
from tenure.store.settings import RuntimeSetting
from tests.support.databases import Database

_MADE = "select i as id, clock_timestamp() - make_interval(secs => :days * 86400 + n) as at from unnest(cast(:ids as uuid[])) with ordinality u (i, n)"
_ENDED = (
    f"""insert into tasks (id, kind, queue, state, request_hash, initiator_type, initiator_id, initiator_name,
            available_at, attempt, activity_id, created_at, started_at, finished_at, redacted_at)
        select id, 'aged', 'default', 'succeeded', sha256('{{}}'), 'test', '1', 'test', at, 1, id, at, at, at, at
        from ({_MADE}) made""",
    f"""insert into activities (id, task_id, status, initiator_type, initiator_id, initiator_name, target_type,
            target_name, created_at, executed_at, ended_at)
        select id, id, 'complete', 'test', '1', 'test', 'task', 'aged', at, at, at from ({_MADE}) made""",
    "insert into task_results select i, '1' from unnest(cast(:ids as uuid[])) i, cast(:days as float8)",
    "insert into task_params select i, '{}', 1 from unnest(cast(:ids as uuid[])) i, cast(:days as float8)",
    """insert into task_checkpoints (task_id, sequence, token, cursor) select i, 1, 1, '{}'
       from unnest(cast(:ids as uuid[])) i, cast(:days as float8)""",
)
_HISTORY = {
    "task_events": """insert into task_events (created_at, task_id, verb, state)
        select clock_timestamp() - make_interval(secs => :days * 86400 + n), gen_random_uuid(), 'submit', 'queued'
        from generate_series(1, :count) n""",
    "task_attempts": """insert into task_attempts (created_at, task_id, attempt, token, worker, pid, how)
        select clock_timestamp() - make_interval(secs => :days * 86400 + n), gen_random_uuid(), 1, 1, gen_random_uuid(), 1, 'x'
        from generate_series(1, :count) n""",
}
# Two months before this one and more: housekeeping makes none of them again.
_MONTH = """select to_char(m, 'YYYYMM'), m, m + interval '1 month'
    from (select date_trunc('month', clock_timestamp() - make_interval(days => :days), 'UTC') as m) x"""


def keep(database: Database, setting: RuntimeSetting, days: float) -> None:
    """Set an age."""
    with database.engine.begin() as connection:
        settings.store(connection, setting, days, by="test")


def ended(database: Database, count: int, *, days: float) -> list[UUID]:
    """Tasks that ended so many days ago, a second apart, with params, result, checkpoint and activity."""
    with database.engine.begin() as connection:
        ids = list(connection.execute(text("select uuidv7() from generate_series(1, :n)"), {"n": count}).scalars())
        for statement in _ENDED:
            connection.execute(text(statement), {"ids": ids, "days": days})
    return ids


def month(database: Database, parent: str, *, days: int) -> str:
    """The partition for that many days ago, made when it is missing; its name."""
    with database.engine.begin() as connection:
        tag, low, high = connection.execute(text(_MONTH), {"days": days}).one()
        name = f"{parent}_{tag}"
        connection.exec_driver_sql(
            f"create table if not exists {name} partition of {parent} for values from ('{low}') to ('{high}')"
        )
    return name


def history(database: Database, parent: str, count: int, *, days: int) -> str:
    """Rows that many days old, a second apart; the partition they are in."""
    name = month(database, parent, days=days)
    with database.engine.begin() as connection:
        connection.execute(text(_HISTORY[parent]), {"days": days, "count": count})
    return name


def items(database: Database, activity: UUID, count: int, *, days: int) -> str:
    """Items of an activity, that many days old; the partition they are in."""
    name = month(database, "activity_items", days=days)
    with database.engine.begin() as connection:
        connection.execute(
            text("""insert into activity_items (created_at, activity_id, source_id, change)
                select clock_timestamp() - make_interval(secs => :days * 86400 + n), :activity, :activity, 'updated'
                from generate_series(1, :count) n"""),
            {"days": days, "count": count, "activity": activity},
        )
    return name
