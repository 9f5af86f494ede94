"""How long the objects of a class are kept: columns of the class. Runs before a deploy."""

from alembic import op

revision = "0009"
down_revision = "0008"

RETENTION = """
alter table record_classes
    add column keep_days float8 check (keep_days > 0 and keep_days <= 36500),
    add column keep_newest bigint check (keep_newest >= 0);
"""


def upgrade() -> None:
    # The driver's cursor, as in 0001: `%` and `:` are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(RETENTION)
