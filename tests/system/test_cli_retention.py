"""`tenure retention`: ages and runs from the command line."""

from pathlib import Path
from uuid import UUID

import pytest

from tenure_workers.kinds.platform_retention import platform_retention
from tests.support import aged, tasks
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.executing import run as execute


@pytest.fixture
def tenure(tmp_path: Path, database: Database, broker_url: str) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)


def test_show_tells_ages_and_what_the_last_run_came_to(tenure: Tenure, database: Database) -> None:
    assert "no run has ended yet" in tenure.line("retention", "show")
    tenure.line("settings", "set", "retention.tasks_days", "30")
    aged.ended(database, 3, days=31)
    made = tenure.json("retention", "run", "--dry-run")
    execute(database, UUID(made["id"]), platform_retention)
    shown = tenure.json("retention", "show")
    ages = {row["name"]: row["value"] for row in shown["ages"]}
    assert ages["retention.tasks_days"] == 30
    assert shown["last"]["task"] == made["id"]
    assert shown["last"]["result"]["rows"] == {"tasks": 3}
    assert "would go: 3 tasks" in tenure.line("retention", "show")
    assert tasks.value(database, "select count(*) from tasks where kind = 'aged'") == 3
