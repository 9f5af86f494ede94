"""What a database holds, whole: to say that a statement changed nothing."""

from sqlalchemy import Connection, text

from tests.support.databases import Database

# Partitions are read through their parent; the migration's own table never changes in a test.
_TABLES = text("""select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'alembic_version'
    order by c.relname""")

Snapshot = dict[str, list[str]]


def tables(connection: Connection) -> list[str]:
    return list(connection.execute(_TABLES).scalars())


def snapshot(database: Database) -> Snapshot:
    """Every row of every table as text, sorted."""
    with database.engine.connect() as connection:
        parts = [
            f"select '{name}' as part, array(select to_jsonb(t)::text from \"{name}\" t order by 1) as rows"
            for name in tables(connection)
        ]
        found = connection.execute(text(" union all ".join(parts)))
        return {row.part: list(row.rows) for row in found}


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """Tables that differ; [] when nothing changed."""
    return [name for name in before if before[name] != after[name]]


def wipe(database: Database) -> None:
    """Delete every row that tests made; quicker than another database. Rows that migrations seed stay wiped, too."""
    with database.engine.begin() as connection:
        deletes = [f'delete from "{name}"' for name in tables(connection)]
        # As a replica, so that there is no order of foreign keys to keep; in one round trip.
        connection.execute(text("; ".join(["set local session_replication_role = replica", *deletes])))
