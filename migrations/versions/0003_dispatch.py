"""Dispatch rules: limits, scopes, exclusiveness, and hints ordered by priority with age. Runs before a deploy; workers of
the version before it cannot claim beside it.
"""

from alembic import op

revision = "0003"
down_revision = "0002"

TABLES = """
alter table task_leases add scope text, add exclusive boolean not null default false;
create index task_leases_kind on task_leases (kind);
create index task_leases_scope on task_leases (scope) where scope is not null;
create index task_leases_exclusive on task_leases (task_id) where exclusive;
update task_leases l set scope = k.scope, exclusive = k.exclusive from tasks k where k.id = l.task_id;

-- turn: when it is to be picked among its queue's; the task's time, earlier by a fixed time per step of priority.
alter table task_hints add scope text, add turn timestamptz not null default clock_timestamp();
drop index task_hints_pick;
create index task_hints_pick on task_hints (queue, turn, id);
update task_hints h set scope = k.scope, turn = k.available_at - k.priority * interval '60 seconds'
    from tasks k where k.id = h.task_id;

-- What an operator set goes before what the kind declares. `each scope` is a kind's limit for scopes without one.
drop table limits;
create table limits (
    what text not null check (what in ('global','kind','scope','each scope')),
    name text not null,
    at_most integer check (at_most >= 0),
    declared integer check (declared >= 0),
    set_by text,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (what, name),
    constraint limits_say_something check (at_most is not null or declared is not null)
);
-- An exclusive task that was refused because others ran: until then nothing else starts beside it.
create table exclusive_turns (
    task_id uuid primary key,
    scope text,
    since timestamptz not null default clock_timestamp(),
    until timestamptz not null
);
"""

RULES = """
-- A limit's lock for the rest of this claim. Whoever has it commits within a millisecond or two, and a claim refused for
-- so little would leave a slot idle for longer: a few tries are worth it. Bounded, so that no two claims wait for ever.
create function lock_rule(key bigint) returns boolean language plpgsql volatile as $$
begin
    for attempt in 1..10 loop
        if pg_try_advisory_xact_lock(key) then return true; end if;
        perform pg_sleep(0.0005);
    end loop;
    return false;
end $$;

-- Why a queued task may not run now, or null: the part of a claim's predicate that looks at other rows.
-- VOLATILE on purpose: each query in it sees all that was committed until then. A count made under its limit's lock is
-- exact for that reason, though the snapshot of the claim itself may be older. Locks are tried, not waited for, and held
-- until the claim commits; with `locking` false nothing is locked.
create function claim_refusal(claimed uuid, of_kind text, of_queue text, of_scope text, alone boolean, locking boolean)
returns text language plpgsql volatile cost 100000 as $$
declare
    refusal text; rule record; running bigint;
    gate constant bigint := 2115043331; -- 0x7E110003: shared by all claims, taken whole by what runs alone everywhere
begin
    if locking then
        if alone and of_scope is null then
            if not lock_rule(gate) then return 'contended'; end if;
        elsif not pg_try_advisory_xact_lock_shared(gate) then return 'contended';
        end if;
        if of_scope is not null then
            if alone then
                if not lock_rule(hashtextextended(of_scope, gate)) then return 'contended'; end if;
            elsif not pg_try_advisory_xact_lock_shared(hashtextextended(of_scope, gate)) then return 'contended';
            end if;
        end if;
    end if;
    -- As a rule nothing of all this is there, and one look says so.
    if not alone and not (exists (select 1 from task_stops s where s.task_id = claimed) or exists (select 1 from pauses)
            or exists (select 1 from limits) or exists (select 1 from exclusive_turns)
            or exists (select 1 from task_leases l where l.exclusive)) then
        return null;
    end if;
    if exists (select 1 from task_stops s where s.task_id = claimed) then return 'stop_asked'; end if;
    select p.what || '_paused' into refusal from pauses p
        where (p.what = 'kind' and p.name = of_kind) or (p.what = 'queue' and p.name = of_queue) order by 1 limit 1;
    if refusal is not null then return refusal; end if;
    if exists (select 1 from task_leases l where l.exclusive and l.expires > clock_timestamp()
            and (l.scope is null or l.scope = of_scope)) then
        return 'exclusive_running';
    end if;
    if exists (select 1 from exclusive_turns e join tasks k on k.id = e.task_id
            where e.until > clock_timestamp() and e.task_id <> claimed and k.state = 'queued'
              and (e.scope is null or e.scope = of_scope or (alone and of_scope is null))
              and (not alone or (e.since, e.task_id) < (coalesce(
                  (select o.since from exclusive_turns o where o.task_id = claimed), 'infinity'), claimed))) then
        return 'exclusive_waiting';
    end if;
    for rule in
        select l.what, l.name, coalesce(l.at_most, l.declared) as most from limits l
        where (l.what = 'global' and l.name = '') or (l.what = 'kind' and l.name = of_kind)
           or (l.what = 'scope' and l.name = of_scope)
           or (l.what = 'each scope' and l.name = of_kind and of_scope is not null
               and not exists (select 1 from limits o where o.what = 'scope' and o.name = of_scope))
        order by l.what, l.name
    loop
        if locking and not lock_rule(hashtextextended(
            case when rule.what = 'each scope' then 'scope ' || of_scope else rule.what || ' ' || rule.name end, 0))
        then
            return 'contended';
        end if;
        if rule.what = 'global' then
            select count(*) into running from (select 1 from task_leases l
                where l.expires > clock_timestamp() limit rule.most) held;
        elsif rule.what = 'kind' then
            select count(*) into running from (select 1 from task_leases l
                where l.kind = of_kind and l.expires > clock_timestamp() limit rule.most) held;
        else
            select count(*) into running from (select 1 from task_leases l
                where l.scope = of_scope and l.expires > clock_timestamp() limit rule.most) held;
        end if;
        if running >= rule.most then
            return case rule.what when 'each scope' then 'scope' else rule.what end || '_full';
        end if;
    end loop;
    if alone and exists (select 1 from task_leases l where l.expires > clock_timestamp()
                         and (of_scope is null or l.scope = of_scope)) then
        return 'not_alone';
    end if;
    return null;
end $$;

-- When a hint is to be picked. All hints age alike, so one time that never changes is priority and age together; what a
-- step of priority is worth is read when the hint is made.
create function hint_turn(available timestamptz, priority smallint) returns timestamptz language sql stable as $$
    select available - priority * make_interval(secs => coalesce((select s.value::text::float8 from service_settings s
        where s.name = 'dispatch.ageing_seconds' and jsonb_typeof(s.value) = 'number'), 60))
$$;

-- What has no room now, leaving out the leases of tasks that are just ending, for passing over hints without claiming
-- them: `*` for all, `kind K`, `scope S`, `each K S`. Null where no rule is in force. May be out of date: the claim decides.
create function rules_full(ending uuid[]) returns text[] language plpgsql stable as $$
begin
    if not exists (select 1 from limits) and not exists (select 1 from exclusive_turns)
       and not exists (select 1 from task_leases l where l.exclusive) then
        return null;
    end if;
    return array(
        with held as materialized (select l.kind, l.scope, l.exclusive from task_leases l
                where l.expires > clock_timestamp() and l.task_id <> all(ending)),
        bound as materialized (select l.what, l.name, coalesce(l.at_most, l.declared) as most from limits l)
        select '*' from bound b where b.what = 'global' and (select count(*) from held) >= b.most
        union all select '*' from held h where h.exclusive and h.scope is null
        union all select '*' from exclusive_turns e join tasks k on k.id = e.task_id
            where e.scope is null and e.until > clock_timestamp() and k.state = 'queued'
        union all select 'kind ' || b.name from bound b
            where b.what = 'kind' and (select count(*) from held h where h.kind = b.name) >= b.most
        union all select 'scope ' || b.name from bound b
            where b.what = 'scope' and (select count(*) from held h where h.scope = b.name) >= b.most
        union all select 'scope ' || h.scope from held h where h.exclusive and h.scope is not null
        union all select 'scope ' || e.scope from exclusive_turns e join tasks k on k.id = e.task_id
            where e.scope is not null and e.until > clock_timestamp() and k.state = 'queued'
        union all select 'each ' || b.name || ' ' || s.scope from bound b
            join (select h.scope, count(*) as n from held h where h.scope is not null group by 1) s on s.n >= b.most
            where b.what = 'each scope'
              and not exists (select 1 from bound o where o.what = 'scope' and o.name = s.scope));
end $$;

-- Tasks of these that a claim refused, are still queued and have no hint get one, to be looked at later: almost at once
-- where a rule's lock was only contended, but not where somebody holds the row, since nobody knows for how long. Who was
-- refused because others run beside it has its turn now: for a few seconds nothing else starts.
create function hints_back(refused uuid[]) returns integer language plpgsql as $$
declare
    task record; made integer := 0;
begin
    for task in select k.*, claim_refusal(k.id, k.kind, k.queue, k.scope, k.exclusive, false) as refusal from tasks k
                where k.id = any(refused) and k.state || '' = 'queued' loop
        if task.refusal = 'not_alone' then
            insert into exclusive_turns (task_id, scope, until)
                values (task.id, task.scope, clock_timestamp() + interval '5 seconds')
                on conflict (task_id) do update set until = excluded.until;
        end if;
        continue when exists (select 1 from task_hints h where h.task_id = task.id);
        insert into task_hints (task_id, kind, queue, scope, priority, turn, not_before)
            values (task.id, task.kind, task.queue, task.scope, task.priority, hint_turn(task.available_at, task.priority),
                    clock_timestamp() + make_interval(secs => case
                        when task.refusal = 'not_alone' then 0.25
                        when task.refusal is null and exists (select 1 from tasks k
                            where k.id = task.id for share skip locked) then 0.05 else 1 end));
        made := made + 1;
    end loop;
    return made;
end $$;
"""


def upgrade() -> None:
    # The driver's cursor: `%` and `:` in function bodies are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute(RULES)
