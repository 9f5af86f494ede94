"""The kernel: tasks, leases, checkpoints, hints, history, activities, workers. Runs before a deploy.

Raw and forward-only. History tables are partitioned by month from the start (it is dear later), without a DEFAULT
partition (it forbids DETACH CONCURRENTLY) and without foreign keys to them.
"""

from alembic import op

revision = "0001"
down_revision = None

TASKS = """
create sequence lease_token as bigint;

create table tasks (
    id uuid primary key,
    kind text not null check (octet_length(kind) between 1 and 200),
    queue text not null check (octet_length(queue) between 1 and 200),
    priority smallint not null default 0,
    state text not null check (state in ('waiting','scheduled','queued','validating','running',
                                         'succeeded','partially_succeeded','failed','cancelled')),
    outcome text check (outcome in ('error','attempts_exhausted','rejected','service_unavailable',
                                    'deadline_exceeded','worker_lost')),
    request_hash bytea not null check (octet_length(request_hash) = 32),
    idempotency_key text check (octet_length(idempotency_key) between 1 and 255),
    submitter text not null default '',
    initiator_type text not null check (initiator_type <> ''),
    initiator_id text not null check (initiator_id <> ''),
    initiator_name text not null check (initiator_name <> ''),
    labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object'),
    scope text,
    exclusive boolean not null default false,
    available_at timestamptz not null,
    start_by timestamptz,
    deadline timestamptz,
    run_limit interval check (run_limit > interval '0'),
    attempt integer not null default 0 check (attempt >= 0),
    max_attempts integer not null default 1 check (max_attempts >= 1),
    crashes integer not null default 0 check (crashes >= 0),
    -- Recovery must not need a registered kind: what it decides by is on the row.
    on_lost text not null default 'fail' check (on_lost in ('fail','resume')),
    keep_params boolean not null default false,
    plans boolean not null default false,
    summary text,
    error_code text,
    error_message text,
    activity_id uuid not null,
    retry_of uuid,
    execution_id uuid,
    step_index integer,
    created_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    redacted_at timestamptz,
    constraint tasks_terminal_has_finished check
        ((state in ('succeeded','partially_succeeded','failed','cancelled')) = (finished_at is not null)),
    constraint tasks_failed_has_outcome check ((state = 'failed') = (outcome is not null)),
    constraint tasks_active_has_attempt check (state not in ('validating','running') or attempt >= 1),
    constraint tasks_active_has_started check (state not in ('validating','running') or started_at is not null)
);
create unique index tasks_key on tasks (submitter, idempotency_key) where idempotency_key is not null;
create index tasks_queued on tasks (queue, priority desc, id) where state = 'queued';
create index tasks_due on tasks (available_at) where state = 'scheduled';
create index tasks_late on tasks (least(start_by, deadline))
    where state in ('waiting','scheduled','queued') and (start_by is not null or deadline is not null);
create index tasks_kind on tasks (kind, created_at);
create index tasks_finished on tasks (finished_at) where finished_at is not null;
create index tasks_execution on tasks (execution_id) where execution_id is not null;
create index tasks_retry_of on tasks (retry_of) where retry_of is not null;

create function tasks_stay_terminal() returns trigger language plpgsql as $$
begin
    raise exception 'task % has ended as %: nothing leaves a terminal state', old.id, old.state
        using errcode = 'check_violation';
end $$;
-- The WHEN clause costs nothing on ordinary updates; the function only ever refuses.
create trigger tasks_stay_terminal before update on tasks for each row
    when (old.state in ('succeeded','partially_succeeded','failed','cancelled')
          and (new.state is distinct from old.state or new.outcome is distinct from old.outcome
               or new.finished_at is distinct from old.finished_at))
    execute function tasks_stay_terminal();

create table task_params (
    task_id uuid primary key references tasks on delete cascade,
    params jsonb not null,
    params_version smallint not null default 1 check (params_version >= 1)
);
create table task_results (
    task_id uuid primary key references tasks on delete cascade,
    result jsonb not null
);

-- No index on expires, fillfactor 50: renewals stay HOT. UNIQUE (task_id, token) is what FOR KEY SHARE protects:
-- a renewal (non-key update) passes beside a fenced page, a steal waits for it.
create table task_leases (
    task_id uuid primary key references tasks,
    token bigint not null,
    worker uuid not null,
    pid integer not null,
    kind text not null,
    queue text not null,
    attempt integer not null,
    acquired timestamptz not null,
    renewed timestamptz not null,
    expires timestamptz not null,
    deadline timestamptz,
    constraint task_leases_token unique (task_id, token)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index task_leases_worker on task_leases (worker);

create table task_checkpoints (
    task_id uuid primary key references tasks on delete cascade,
    sequence bigint not null check (sequence >= 0),
    token bigint not null,
    cursor jsonb not null,
    total bigint check (total >= 0),
    processed bigint not null default 0 check (processed >= 0),
    succeeded bigint not null default 0 check (succeeded >= 0),
    failed bigint not null default 0 check (failed >= 0),
    updated_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Append-only requests, no unique key: an open caller transaction must not make another caller wait.
create table task_stops (
    id bigint generated always as identity primary key,
    task_id uuid not null,
    asked_by text not null,
    reason text,
    created_at timestamptz not null default clock_timestamp()
);
create index task_stops_task on task_stops (task_id);

create table task_hints (
    id bigint generated always as identity primary key,
    task_id uuid not null,
    kind text not null,
    queue text not null,
    priority smallint not null,
    not_before timestamptz
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index task_hints_pick on task_hints (queue, priority desc, id);
create index task_hints_task on task_hints (task_id);
"""

HISTORY = """
create table task_attempts (
    id uuid not null default uuidv7(),
    created_at timestamptz not null,
    task_id uuid not null,
    attempt integer not null,
    token bigint not null,
    worker uuid not null,
    pid integer not null,
    ended_at timestamptz not null default clock_timestamp(),
    how text not null,
    error_code text,
    error_message text,
    forced boolean not null default false,
    primary key (created_at, id)
) partition by range (created_at);
create index on task_attempts (task_id);

create table task_events (
    id uuid not null default uuidv7(),
    created_at timestamptz not null default clock_timestamp(),
    task_id uuid not null,
    verb text not null,
    state text not null,
    token bigint,
    note text,
    primary key (created_at, id)
) partition by range (created_at);
create index on task_events (task_id);

create table activities (
    id uuid primary key,
    task_id uuid,
    parent_id uuid,
    status text not null default 'in_progress' check (status in
        ('in_progress','complete','complete_with_warning','complete_with_error','failed','cancelled')),
    initiator_type text not null check (initiator_type <> ''),
    initiator_id text not null check (initiator_id <> ''),
    initiator_name text not null check (initiator_name <> ''),
    actor text,
    target_type text,
    target_id text,
    target_name text,
    context text,
    message text,
    created_at timestamptz not null default clock_timestamp(),
    executed_at timestamptz,
    ended_at timestamptz,
    constraint activities_ended check ((status = 'in_progress') = (ended_at is null))
) with (fillfactor = 80);
create function activities_stay_ended() returns trigger language plpgsql as $$
begin
    raise exception 'activity % has ended as %', old.id, old.status using errcode = 'check_violation';
end $$;
create trigger activities_stay_ended before update on activities for each row
    when (old.status <> 'in_progress' and new.status is distinct from old.status)
    execute function activities_stay_ended();

create table activity_items (
    id uuid not null default uuidv7(),
    created_at timestamptz not null default clock_timestamp(),
    activity_id uuid not null,
    change text not null,
    object_type text,
    object_id text,
    object_name text,
    error_code text,
    error_message text,
    detail jsonb,
    primary key (created_at, id)
) partition by range (created_at);
create index on activity_items (activity_id);

create function make_history_partitions(ahead integer) returns integer language plpgsql as $$
declare
    month date; parent text; made integer := 0;
begin
    -- One month back as well: rows carry the time an attempt was acquired, which may lie before midnight of the 1st.
    for i in -1..ahead loop
        month := date_trunc('month', clock_timestamp() at time zone 'UTC')::date + make_interval(months => i);
        foreach parent in array array['task_attempts','task_events','activity_items'] loop
            if to_regclass(format('%s_%s', parent, to_char(month, 'YYYYMM'))) is null then
                execute format('create table %I partition of %I for values from (%L) to (%L)',
                    format('%s_%s', parent, to_char(month, 'YYYYMM')), parent,
                    month::timestamp at time zone 'UTC', (month + interval '1 month') at time zone 'UTC');
                made := made + 1;
            end if;
        end loop;
    end loop;
    return made;
end $$;
select make_history_partitions(12);
"""

AROUND = """
create table workers (
    boot_id uuid primary key,
    node text not null,
    role text not null,
    pid integer not null,
    -- Which process of which machine boot: lets a restart tell that its predecessor is gone, whatever its pid is now.
    instance text not null default '',
    version text not null,
    slots integer not null default 0,
    queues text[] not null default '{}',
    kinds text[] not null default '{}',
    work text,
    started_at timestamptz not null default clock_timestamp(),
    last_seen timestamptz not null default clock_timestamp(),
    ended_at timestamptz
) with (fillfactor = 50);
create index workers_node on workers (node);

create table service_settings (
    name text primary key,
    value jsonb not null,
    updated_at timestamptz not null default clock_timestamp(),
    updated_by text
);
create table broker_state (
    id smallint primary key default 1 check (id = 1),
    epoch uuid not null,
    run_id text not null,
    updated_at timestamptz not null default clock_timestamp()
);
create table pauses (
    what text not null check (what in ('kind','queue')),
    name text not null,
    paused_by text not null,
    reason text,
    created_at timestamptz not null default clock_timestamp(),
    primary key (what, name)
);
create table limits (
    what text not null check (what in ('global','kind','scope')),
    name text not null,
    at_most integer not null check (at_most >= 0),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (what, name)
);
-- Ids of purged adopted tasks: a redelivered foreign message must not make the task again.
create table adopted_ids (
    id uuid primary key,
    created_at timestamptz not null default clock_timestamp()
);
create table executions (
    id uuid primary key,
    schedule_id uuid,
    schedule_name text not null,
    occurrence text not null unique,
    due_at timestamptz not null,
    state text not null check (state in ('running','succeeded','failed','cancelled')),
    group_index integer not null default 0,
    plan jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    constraint executions_ended check ((state = 'running') = (finished_at is null))
);
-- No unique key and no lock on the execution: finisher and canceller would deadlock.
create table execution_due (
    id bigint generated always as identity primary key,
    execution_id uuid not null,
    created_at timestamptz not null default clock_timestamp()
);
create index execution_due_execution on execution_due (execution_id);
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        for part in (TASKS, HISTORY, AROUND):
            cursor.execute(part)
