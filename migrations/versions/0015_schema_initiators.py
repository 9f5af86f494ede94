"""Schemas by initiators without an id, such as Tenure itself: the matrix of initiators decides. Runs before a deploy."""

from alembic import op

revision = "0015"
down_revision = "0014"

RELAX = """
alter table schema_revisions drop constraint schema_revisions_proposer_id_check,
    drop constraint schema_revisions_activator,
    add constraint schema_revisions_activator check (activated_at is null
        or (activator_type <> '' and activator_id is not null and activator_name <> ''));
"""


def upgrade() -> None:
    with op.get_bind().connection.cursor() as cursor:
        cursor.execute(RELAX)
