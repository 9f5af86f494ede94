"""What purging tasks and activities needs: a cheaper check of leases, and open children by parent. Runs before a deploy.

RESTRICT refuses what NO ACTION refused, without looking for another task of the same id first.
"""

from alembic import op

revision = "0010"
down_revision = "0009"

PURGING = """
alter table task_leases drop constraint task_leases_task_id_fkey,
    add constraint task_leases_task_id_fkey foreign key (task_id) references tasks on delete restrict;
create index activities_open_children on activities (parent_id) where parent_id is not null and status = 'in_progress';
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(PURGING)
