"""Ends of activities are HOT updates again: no index has the status in its predicate. Runs before a deploy.

`activities_parent` serves what looked for open children by parent.
"""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.execute("drop index activities_open_children")
