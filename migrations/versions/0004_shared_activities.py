"""An activity that several tasks share ends with the last of them. Runs before a deploy."""

from alembic import op

revision = "0004"
down_revision = "0003"

SHARED = """
-- As a rule a task has an activity of its own: nothing of it is in here.
create index tasks_shared_activity on tasks (activity_id) where activity_id <> id and finished_at is null;

-- Whether no task of a shared activity is left but those that are just ending. Two that end at once must not each take
-- the other for unfinished: who looks has the activity's row until it commits, and VOLATILE looks at what was committed
-- until then.
create function activity_is_over(activity uuid, ending uuid[]) returns boolean language plpgsql volatile as $$
begin
    perform 1 from activities a where a.id = activity for no key update;
    return not exists (select 1 from tasks k where k.activity_id = activity and k.activity_id <> k.id
                       and k.finished_at is null and k.id <> all(ending))
       and not exists (select 1 from tasks k where k.id = activity and k.activity_id = activity
                       and k.finished_at is null and k.id <> all(ending));
end $$;
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(SHARED)
