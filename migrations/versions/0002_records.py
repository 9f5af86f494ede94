"""Records: classes, JSON objects, computed fields and their materialised values. Runs before a deploy.

Computed values have a table of their own, keyed as the objects are: a reindex then rewrites narrow rows and never an
object's data.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

RECORDS = """
-- One sequence for all classes: a change_seq is never given twice, so it names one version of one object's data.
create sequence record_change_seq as bigint;

create table record_classes (
    id integer primary key generated always as identity,
    name text not null unique check (octet_length(name) between 1 and 200),
    description text not null default '' check (octet_length(description) <= 2048),
    revision integer not null default 1 check (revision >= 1),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

-- (class_id, id) is what a reindex walks, so no further index on id is kept.
create table record_objects (
    class_id integer not null references record_classes on delete cascade,
    id bigint generated always as identity,
    key text not null check (octet_length(key) between 1 and 255),
    data jsonb not null check (jsonb_typeof(data) = 'object'),
    revision integer not null default 1 check (revision >= 1),
    change_seq bigint not null default nextval('record_change_seq'),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (class_id, id),
    constraint record_objects_key unique (class_id, key)
) with (fillfactor = 90);

create table computed_field_definitions (
    id integer primary key generated always as identity,
    class_id integer not null references record_classes on delete cascade,
    visibility text not null default 'shared' check (visibility in ('shared','personal')),
    owner text not null default '',
    key text not null check (key ~ '^[a-z][a-z0-9_]{0,62}$'),
    label text not null check (octet_length(label) between 1 and 128),
    description text not null default '' check (octet_length(description) <= 2048),
    op text not null,
    paths text[] not null check (cardinality(paths) between 1 and 16),
    result_type text not null check (result_type in ('string','number','integer','boolean','object','array')),
    enabled boolean not null default true,
    semantics_version integer not null default 1 check (semantics_version >= 1),
    revision integer not null default 1 check (revision >= 1),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    constraint computed_field_owner check ((visibility = 'personal') = (owner <> '')),
    constraint computed_field_key unique (class_id, visibility, owner, key)
);

-- evaluation_revision names one set of value-affecting definitions. active_task_id stays after the rebuild, so that
-- a resumed attempt can tell its own finished work from somebody else's.
create table class_computation_state (
    class_id integer primary key references record_classes on delete cascade,
    evaluation_revision bigint not null default 0 check (evaluation_revision >= 0),
    rebuild_status text not null default 'ready' check (rebuild_status in ('ready','rebuilding','failed')),
    active_task_id uuid,
    last_error text,
    updated_at timestamptz not null default clock_timestamp(),
    constraint class_computation_task check (rebuild_status <> 'rebuilding' or active_task_id is not null)
) with (fillfactor = 50);

-- fillfactor 50 and a single index, on columns that never change: a reindex finds room for each row's next version
-- on the row's own page (a HOT update). No foreign key to the object: its check would lock, and so rewrite, every
-- object of a reindex; deleting an object deletes its row here, and a sweep removes what a race may leave.
create table object_computed_data (
    class_id integer not null references record_classes on delete cascade,
    object_id bigint not null,
    evaluation_revision bigint not null,
    change_seq bigint not null,
    source_digest bytea not null check (octet_length(source_digest) = 32),
    values jsonb not null,
    errors jsonb not null,
    computed_at timestamptz not null default clock_timestamp(),
    primary key (class_id, object_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
"""


def upgrade() -> None:
    # The driver's cursor, as in 0001: `%` and `:` are PostgreSQL's, not placeholders.
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(RECORDS)
