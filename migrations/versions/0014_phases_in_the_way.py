"""One wait for locked phases per transaction, however many leases end in it. Runs before a deploy."""

from alembic import op

revision = "0014"
down_revision = "0013"

CLOSING = """
-- A sweep ends a hundred leases in one statement: if the phases of one are locked, so may be those of all. The setting goes
-- with the transaction; what stays open is closed by housekeeping.
create or replace function task_leases_close_phases() returns trigger language plpgsql set lock_timeout = 100 as $$
begin
    if current_setting('tenure.phases_locked', true) = 'yes' then
        return null;
    end if;
    perform close_phases(old.task_id);
    return null;
exception when others then
    perform set_config('tenure.phases_locked', 'yes', true);
    raise warning 'the phases of task % could not be closed: %', old.task_id, sqlstate;
    return null;
end $$;
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(CLOSING)
