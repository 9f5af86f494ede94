"""Retention: which tasks came as messages, and activities in the order of their time. Runs before a deploy.

A worker of the version before adopts without the mark until it is restarted; what it adopted then leaves no tombstone.
"""

from alembic import op

revision = "0006"
down_revision = "0005"

RETENTION = """
-- Its message may be delivered again after the task was purged: such an id leaves a tombstone in adopted_ids.
alter table tasks add column adopted boolean not null default false;
update tasks set adopted = true
    where id in (select e.task_id from task_events e where e.verb = 'submit' and e.note = 'adopted');
create index adopted_ids_created on adopted_ids (created_at);

-- By creation, which never changes: an index on the end would make every end of a task touch all indexes.
create index activities_created on activities (created_at, id);
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(RETENTION)
