"""Schedules as data, their steps, and executions with the plan they were started with. Runs before a deploy.

Nothing has written an execution before: its table is made anew.
"""

from alembic import op

revision = "0008"
down_revision = "0007"

SCHEDULES = """
create table schedules (
    id uuid primary key,
    name text not null unique check (octet_length(name) between 1 and 200),
    description text not null default '',
    -- Cron with its zone, or an interval in seconds, or neither: run by hand.
    cron text,
    zone text,
    every_seconds float8 check (every_seconds > 0),
    -- From when an interval counts.
    anchor timestamptz not null default clock_timestamp(),
    overlap text not null default 'skip' check (overlap in ('skip','queue_one','allow')),
    misfire text not null default 'once' check (misfire in ('skip','once','all')),
    at_most integer check (at_most >= 1),
    on_failure text not null default 'stop' check (on_failure in ('stop','continue')),
    -- Whether it is wanted at all; a pause is an operator's hold that ends again.
    enabled boolean not null default true,
    paused_by text,
    paused_reason text,
    paused_at timestamptz,
    built_in boolean not null default false,
    -- Who keeps it: a name such as `file`, whose next apply may change or remove it.
    origin text not null default '',
    -- Null: nothing is due, ever, until it is changed.
    next_run_at timestamptz,
    last_due_at timestamptz,
    missed bigint not null default 0 check (missed >= 0),
    revision bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    updated_by text not null,
    constraint schedules_one_recurrence check (cron is null or every_seconds is null),
    constraint schedules_cron_has_zone check ((cron is null) = (zone is null)),
    constraint schedules_all_says_how_many check ((misfire = 'all') = (at_most is not null)),
    constraint schedules_pause_is_whole check ((paused_by is null) = (paused_at is null))
) with (fillfactor = 80);
create index schedules_due on schedules (next_run_at) where enabled and paused_by is null and next_run_at is not null;

-- Steps of one group run beside each other; groups follow one another, numbered from 0.
create table schedule_steps (
    schedule_id uuid not null references schedules on delete cascade,
    position integer not null check (position >= 0),
    group_index integer not null check (group_index >= 0),
    kind text not null check (octet_length(kind) between 1 and 200),
    params jsonb not null default '{}',
    on_failure text not null default 'inherit' check (on_failure in ('inherit','stop','continue')),
    queue text check (octet_length(queue) between 1 and 200),
    priority smallint,
    scope text,
    exclusive boolean,
    labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object'),
    deadline_seconds float8 check (deadline_seconds > 0),
    primary key (schedule_id, position)
);

drop table executions;
create table executions (
    id uuid primary key,
    -- No foreign key: what ran stays known when the schedule is gone.
    schedule_id uuid not null,
    schedule_name text not null,
    trigger text not null check (trigger in ('due','backfill','manual')),
    due_at timestamptz not null,
    state text not null check (state in ('waiting','running','cancelling','succeeded','partially_succeeded','failed',
                                         'cancelled','skipped')),
    -- The group whose turn it is; an advance that finds another one has come too late and does nothing.
    group_index integer not null default 0,
    -- What was to be done when it started: edits of the schedule do not reach it. Holds no params.
    plan jsonb not null check (jsonb_typeof(plan) = 'array'),
    reason text,
    initiator_type text not null check (initiator_type <> ''),
    initiator_id text not null check (initiator_id <> ''),
    initiator_name text not null check (initiator_name <> ''),
    cancel_asked_by text,
    created_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    constraint executions_ended check ((state in ('waiting','running','cancelling')) = (finished_at is null))
) with (fillfactor = 80);
-- The occurrence key: whatever claims, freezes or comes back, a due time starts one execution.
create unique index executions_occurrence on executions (schedule_id, due_at)
    where trigger in ('due','backfill') and state <> 'skipped';
create index executions_unfinished on executions (schedule_id) where finished_at is null;
create index executions_finished on executions (finished_at) where finished_at is not null;
create index executions_of_schedule on executions (schedule_id, due_at desc, id);

create function executions_stay_ended() returns trigger language plpgsql as $$
begin
    raise exception 'execution % has ended as %', old.id, old.state using errcode = 'check_violation';
end $$;
create trigger executions_stay_ended before update on executions for each row
    when (old.finished_at is not null and new.state is distinct from old.state)
    execute function executions_stay_ended();

alter table execution_due set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(SCHEDULES)
