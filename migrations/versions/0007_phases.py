"""Phases of activities; they are closed with the attempt that opened them. Runs before a deploy."""

from alembic import op

revision = "0007"
down_revision = "0006"

PHASES = """
-- Tasks that share an activity have their phases side by side.
create table activity_phases (
    activity_id uuid not null references activities on delete cascade,
    task_id uuid not null,
    position smallint not null check (position >= 0),
    path text not null check (path <> ''),
    status text not null check (status in ('pending','running','completed','failed','skipped','stopped')),
    done bigint check (done >= 0),
    total bigint check (total >= 0),
    message text,
    started_at timestamptz,
    ended_at timestamptz,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (activity_id, task_id, position)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- Progress changes no column of it: those updates stay HOT.
create index activity_phases_open on activity_phases (task_id) where status in ('pending','running');

-- Set by the first write of an attempt's phases: the ends of all others pay nothing for the trigger below.
alter table task_leases add column phased boolean not null default false;

create function close_phases(task uuid) returns integer language plpgsql as $$
declare
    now_is text; activity uuid; closed integer;
begin
    select k.state, k.activity_id into now_is, activity from tasks k where k.id = task;
    update activity_phases p set updated_at = clock_timestamp(),
           ended_at = case when p.status = 'running' then clock_timestamp() end,
           status = case when p.status = 'pending' then 'skipped'
                         when now_is in ('succeeded','partially_succeeded') then 'completed'
                         when now_is in ('waiting','scheduled','queued') then 'stopped'
                         else 'failed' end
     where p.task_id = task and p.status in ('pending','running');
    get diagnostics closed = row_count;
    if closed > 0 then
        perform pg_notify('tenure_activities', activity::text);
    end if;
    return closed;
end $$;

-- Phases are open only while the lease of their attempt stands, whoever ends it and how. An end must neither fail for its
-- phases nor wait for them: what could not be closed is closed by housekeeping.
create function task_leases_close_phases() returns trigger language plpgsql set lock_timeout = 100 as $$
begin
    perform close_phases(old.task_id);
    return null;
exception when others then
    raise warning 'the phases of task % could not be closed: %', old.task_id, sqlstate;
    return null;
end $$;
create trigger task_leases_close_phases after delete on task_leases for each row
    when (old.phased) execute function task_leases_close_phases();
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(PHASES)
