"""Schemas of record classes: numbered revisions, scans, and evidence per object. Runs before a deploy.

A scan is published by a trigger, in the very statement that ends its task as succeeded: however the task ends otherwise,
nothing of it counts, and the mark outlives the task's row.
"""

from alembic import op

revision = "0005"
down_revision = "0004"

TABLES = """
-- object_bytes is fixed with the proposal: whoever judges by a revision, at whatever time, passes over the same objects.
-- scan_id is the newest scan, the only one that may write evidence.
create table schema_revisions (
    id integer primary key generated always as identity,
    class_id integer not null references record_classes on delete cascade,
    number integer not null check (number >= 1),
    status text not null default 'proposed' check (status in ('proposed','active','retired')),
    mode text check (mode in ('advisory','strict')),
    schema text not null,
    digest bytea not null check (octet_length(digest) = 32),
    object_bytes integer not null check (object_bytes >= 1),
    scan_id integer,
    proposer_type text not null check (proposer_type <> ''),
    proposer_id text not null check (proposer_id <> ''),
    proposer_name text not null check (proposer_name <> ''),
    activator_type text,
    activator_id text,
    activator_name text,
    proposed_at timestamptz not null default clock_timestamp(),
    activated_at timestamptz,
    retired_at timestamptz,
    constraint schema_revisions_number unique (class_id, number),
    constraint schema_revisions_proposed check (status <> 'proposed' or activated_at is null),
    constraint schema_revisions_active check (status <> 'active' or activated_at is not null),
    constraint schema_revisions_retired check ((status = 'retired') = (retired_at is not null)),
    constraint schema_revisions_mode check ((mode is null) = (activated_at is null)),
    constraint schema_revisions_activator check (activated_at is null
        or (activator_type <> '' and activator_id <> '' and activator_name <> ''))
);
-- One proposed and one active revision of a class; also how every write finds the two among thousands.
create unique index schema_revisions_open on schema_revisions (class_id, status) where status <> 'retired';

create table schema_scans (
    id integer primary key generated always as identity,
    schema_id integer not null references schema_revisions on delete cascade,
    task_id uuid not null unique,
    mode text not null check (mode in ('impact','revalidation')),
    upper_id bigint not null check (upper_id >= 0),
    -- Of the attempt that came to the end of the scan; without it nothing is published.
    token bigint,
    judged bigint not null default 0 check (judged >= 0),
    reused bigint not null default 0 check (reused >= 0),
    valid bigint not null default 0 check (valid >= 0),
    invalid bigint not null default 0 check (invalid >= 0),
    uninspectable bigint not null default 0 check (uninspectable >= 0),
    created_at timestamptz not null default clock_timestamp(),
    published_at timestamptz,
    constraint schema_scans_published check (published_at is null or token is not null)
);
create index schema_scans_schema on schema_scans (schema_id);

-- What one version of one object's data is by one revision: change_seq names the version, so a row is a fact that later
-- writes leave behind but never make wrong. Without a scan it was written by the object's own writer, and counts at once.
-- No foreign keys: their checks would cost more than the judging. Ids are never given twice, so a row whose object or
-- class is gone means nothing to anybody.
create table schema_evidence (
    object_id bigint not null,
    change_seq bigint not null,
    token bigint,
    schema_id integer not null,
    scan_id integer,
    verdict text not null check (verdict in ('valid','invalid','uninspectable')),
    findings jsonb,
    primary key (schema_id, object_id),
    constraint schema_evidence_findings check ((verdict = 'invalid') = (findings is not null)),
    constraint schema_evidence_holder check ((scan_id is null) = (token is null))
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);

-- For "changed since", which an activation asks under the class lock. A block range index leaves updates of objects HOT
-- and costs a write next to nothing; a btree on change_seq would make each update touch every index.
create index record_objects_changes on record_objects using brin (change_seq) with (pages_per_range = 32, autosummarize = on);
"""

PUBLISHING = """
create function publish_schema_scan() returns trigger language plpgsql as $$
begin
    update schema_scans s set published_at = clock_timestamp()
    where s.task_id = new.id and s.published_at is null and s.token is not null
      and exists (select 1 from schema_revisions r where r.id = s.schema_id and r.scan_id = s.id and r.status <> 'retired');
    return null;
end $$;
-- The WHEN clause is all that other tasks pay.
create trigger tasks_publish_schema_scan after update of state on tasks for each row
    when (new.kind = 'records.schema_validation' and new.state = 'succeeded' and old.state <> 'succeeded')
    execute function publish_schema_scan();
"""


def upgrade() -> None:
    # The driver's cursor, as in 0001: `%` and `:` are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(TABLES)
        cursor.execute(PUBLISHING)
