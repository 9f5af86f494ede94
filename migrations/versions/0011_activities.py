"""Activities: items with what they left behind, exact statistics, the rule that decides an outcome, and initiators that
are held to one matrix. Runs before a deploy; an application that still names another type of initiator is refused then.
"""

from alembic import op

revision = "0011"
down_revision = "0010"

# A name of another type is kept whole, as that of a service: nothing that was recorded is lost.
INITIATORS = """
update tasks set initiator_name = initiator_type || ':' || initiator_name, initiator_type = 'service'
    where initiator_type not in ('user','api_key','service','schedule','system','celery','test');
update activities set initiator_name = initiator_type || ':' || initiator_name, initiator_type = 'service'
    where initiator_type not in ('user','api_key','service','schedule','system','celery','test');
update tasks set initiator_name = initiator_type where btrim(initiator_name) = '';
update activities set initiator_name = initiator_type where btrim(initiator_name) = '';

alter table tasks drop constraint tasks_initiator_type_check, drop constraint tasks_initiator_id_check,
    drop constraint tasks_initiator_name_check;
alter table activities drop constraint activities_initiator_type_check, drop constraint activities_initiator_id_check,
    drop constraint activities_initiator_name_check;
-- Triggers and no CHECK: PostgreSQL reads every CHECK of a table anew for each statement that updates it, whatever it
-- updates. As CHECKs these two took 8 % of what an end costs.
create function initiators_fit() returns trigger language plpgsql as $$
begin
    if btrim(new.initiator_name) = '' or not (case
        when new.initiator_type = 'anonymous' then new.initiator_id = ''
        when new.initiator_type = 'system' then true
        when new.initiator_type in ('user','api_key','service','schedule','celery','test') then btrim(new.initiator_id) <> ''
        else false end)
    then
        raise exception 'not an initiator: type %', new.initiator_type
            using errcode = 'check_violation', constraint = tg_table_name || '_initiator';
    end if;
    return new;
end $$;
create trigger tasks_initiator before insert or update of initiator_type, initiator_id, initiator_name on tasks
    for each row execute function initiators_fit();
create trigger activities_initiator before insert or update of initiator_type, initiator_id, initiator_name on activities
    for each row execute function initiators_fit();
"""

ACTIVITIES = """
-- expires_at: until when an activity without a task must have ended, or it is ended as failed. Tasks have their leases.
alter table activities add warning_message text, add stack text, add expires_at timestamptz;
update activities set executed_at = ended_at where status like 'complete%' and executed_at is null;
alter table activities drop constraint activities_status_check, add constraint activities_status check (
    status in ('in_progress','failed','cancelled')
    or (executed_at is not null and status in ('complete','complete_with_warning','complete_with_error')));
-- Of columns that an end leaves alone: with the status in it, no end would be a HOT update.
create index activities_expiring on activities (expires_at) where expires_at is not null;
create index activities_parent on activities (parent_id) where parent_id is not null;

drop trigger activities_stay_ended on activities;
create trigger activities_stay_ended before update on activities for each row
    when (old.status <> 'in_progress'
          and (new.status is distinct from old.status or new.ended_at is distinct from old.ended_at))
    execute function activities_stay_ended();

-- source_id: the task that left the item, or the activity itself. snapshot: the object as it was; outcomes: a tree of
-- what followed from the change.
alter table activity_items drop detail, add source_id uuid not null, add unhandled boolean not null default false,
    add snapshot jsonb, add outcomes jsonb,
    add constraint activity_items_error check (error_code is not null or (error_message is null and not unhandled));

-- What the items say, added up in the very statement that writes them: exact at any moment, whatever becomes of the
-- task, and it outlives them. `nested`: counted from the trees of items, so no objects of their own.
create table activity_statistics (
    activity_id uuid not null references activities on delete cascade,
    source_id uuid not null,
    change text not null check (octet_length(change) between 1 and 64),
    nested boolean not null default false,
    objects bigint not null check (objects >= 0),
    errors bigint not null default 0 check (errors between 0 and objects),
    unhandled bigint not null default 0 check (unhandled between 0 and errors),
    primary key (activity_id, source_id, change, nested)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
"""

OUTCOME = """
-- The rule, first match wins. `failed` objects are those that a checkpoint counted without an item to say why: nobody
-- has handled them. Objects without an item count as done.
create function items_outcome(objects numeric, errors numeric, unhandled numeric, processed numeric, failed numeric)
returns text language sql immutable as $$
    select case
        when greatest(errors, failed) > 0 and greatest(errors, failed) >= greatest(objects, processed) then 'failed'
        when unhandled > 0 or failed > errors then 'complete_with_error'
        when errors > 0 then 'complete_with_warning'
        else 'complete' end
$$;

-- Ended tasks too: an activity is shared from the moment that a second task, or one that is not its own, is in it.
drop index tasks_shared_activity;
create index tasks_shared_activity on tasks (activity_id) where activity_id <> id;

-- How a shared activity ends, with the last of its tasks: failed if one of them failed, cancelled if all were, else by the
-- items of all. `ending` are just ending, as `states`. Under the lock that activity_is_over has taken.
create function shared_outcome(activity uuid, ending uuid[], states text[], warned boolean)
returns text language plpgsql volatile as $$
declare
    some_failed boolean; all_cancelled boolean; outcome text;
begin
    select bool_or(s.state = 'failed'), bool_and(s.state = 'cancelled') into some_failed, all_cancelled from (
        select k.state from tasks k
            where k.activity_id = activity and k.activity_id <> k.id and k.id <> all(ending)
        union all select k.state from tasks k
            where k.id = activity and k.activity_id = activity and k.id <> all(ending)
        union all select unnest(states)) s;
    if some_failed then return 'failed'; end if;
    if all_cancelled then return 'cancelled'; end if;
    select items_outcome(coalesce(sum(s.objects), 0), coalesce(sum(s.errors), 0), coalesce(sum(s.unhandled), 0),
        coalesce(min(c.processed), 0), coalesce(min(c.failed), 0))
        into outcome
        from (select sum(c.processed) as processed, sum(c.failed) as failed from task_checkpoints c
              join (select k.id from tasks k where k.activity_id = activity and k.activity_id <> k.id
                    union all select activity) k on k.id = c.task_id) c
        left join activity_statistics s on s.activity_id = activity and not s.nested;
    return case when outcome = 'complete' and warned then 'complete_with_warning' else outcome end;
end $$;

-- When the first of its tasks began.
create function shared_start(activity uuid) returns timestamptz language sql stable as $$
    select min(k.started_at) from (select k.started_at from tasks k where k.activity_id = activity and k.activity_id <> k.id
        union all select k.started_at from tasks k where k.id = activity and k.activity_id = activity) k
$$;

-- A shared activity may fail by a task that ended long before its last: what that one said. The WHEN clause costs
-- nothing on ordinary updates.
create function activities_say_why() returns trigger language plpgsql as $$
begin
    new.message := coalesce(
        (select k.error_message from tasks k where k.activity_id = new.id and k.activity_id <> k.id
            and k.state || '' = 'failed' order by k.finished_at limit 1),
        (select k.error_message from tasks k where k.id = new.id and k.activity_id = new.id and k.state || '' = 'failed'));
    return new;
end $$;
create trigger activities_say_why before update on activities for each row
    when (new.status = 'failed' and new.message is null and old.status = 'in_progress')
    execute function activities_say_why();
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        for part in (INITIATORS, ACTIVITIES, OUTCOME):
            cursor.execute(part)
