"""${message}. Runs before | after a deploy (say which)."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    op.get_bind().exec_driver_sql("")
