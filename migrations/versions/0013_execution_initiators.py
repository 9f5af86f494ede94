"""Executions hold to the same matrix of initiators as tasks and activities. Runs before a deploy."""

from alembic import op

revision = "0013"
down_revision = "0012"

INITIATORS = """
alter table executions drop constraint executions_initiator_type_check, drop constraint executions_initiator_id_check,
    drop constraint executions_initiator_name_check;
create trigger executions_initiator before insert on executions for each row execute function initiators_fit();
"""


def upgrade() -> None:
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(INITIATORS)
