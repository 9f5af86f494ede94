"""What a database holds, whole: to say that a statement changed nothing."""

from functools import lru_cache

from tests.support.databases import Database

# Partitions are read through their parent; the migrations' own table never changes in a test.
_TABLES = """select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'alembic_version'
    order by c.relname"""

Snapshot = dict[str, list[str]]


@lru_cache(maxsize=8)
def _tables(database: Database) -> tuple[str, ...]:
    with database.engine.connect() as connection:
        return tuple(connection.exec_driver_sql(_TABLES).scalars())


def snapshot(database: Database) -> Snapshot:
    """Every row of every table as text, sorted."""
    parts = [
        f"select '{name}', array(select to_jsonb(t)::text from \"{name}\" t order by 1)" for name in _tables(database)
    ]
    with database.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.exec_driver_sql(" union all ".join(parts))}


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """Tables that differ; [] when nothing changed."""
    return [name for name in before if before[name] != after[name]]


def wipe(database: Database) -> None:
    """Delete every row that tests made; quicker than another database. Rows that migrations seed stay wiped, too."""
    deletes = [f'delete from "{name}"' for name in _tables(database)]
    with database.engine.begin() as connection:
        # As a replica, so that there is no order of foreign keys to keep; in one round trip.
        connection.exec_driver_sql("; ".join(["set local session_replication_role = replica", *deletes]))
