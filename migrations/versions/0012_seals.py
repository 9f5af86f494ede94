"""Values that were stored before they had a seal are evaluated anew. Runs after a deploy; before one it does no harm.

Without it every one of them would pass for damage: right when read, but repaired one reader at a time.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

RENEW = """
update class_computation_state s
set evaluation_revision = evaluation_revision + 1, rebuild_status = 'failed', updated_at = clock_timestamp(),
    last_error = 'values are stored with a seal since this version'
where exists (select 1 from object_computed_data c where c.class_id = s.class_id);
"""


def upgrade() -> None:
    # Housekeeping starts the rebuild of a class that is marked so; until it is done, readers evaluate.
    op.execute(RENEW)
