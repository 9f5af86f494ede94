"""Built-in schedules: seeded by the migration, kept as an operator set them, their steps as the code says."""

from typing import Any

import pytest

from tenure import built_in, plugins, schedules
from tenure.migrate import migrate
from tenure.model.definitions import ScheduleSpec
from tenure.model.errors import InvalidSettings
from tenure.store.schedules import Schedule
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot

HOURLY = ScheduleSpec(name="domain.hourly", every=3600.0, steps=[["domain.tidy"]])  # type: ignore[list-item]


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Any:
    def say(*values: Any) -> None:
        monkeypatch.setattr(plugins, "loaded", lambda group: [("domain", value) for value in values])

    return say


def seed(database: Database) -> int:
    with database.engine.begin() as connection:
        return built_in.seed(connection)


def get(database: Database, name: str) -> Schedule:
    with database.engine.connect() as connection:
        return schedules.get(connection, name)


def test_a_migration_seeds_what_is_built_in_and_a_second_changes_nothing(database: Database) -> None:
    migrate(database.url)
    for name, every, enabled in (
        ("platform.retention", 3600.0, True),
        ("records.retention", 3600.0, True),
        ("records.revalidation", 86_400.0, False),
    ):
        found = get(database, name)
        assert (found.built_in, found.spec.every, found.updated_by) == (True, every, "system:Tenure")
        assert (found.next_run_at is not None) == enabled
    before = snapshot(database)
    migrate(database.url)
    assert changed(before, snapshot(database)) == []


def test_a_domain_adds_its_own_singly_or_several(database: Database, declare: Any) -> None:
    declare(HOURLY, (HOURLY.model_copy(update={"name": "domain.other"}),))
    assert seed(database) == 3
    assert seed(database) == 0
    assert get(database, "domain.other").built_in


def test_what_an_operator_set_stays_and_new_steps_come(database: Database, declare: Any) -> None:
    declare(HOURLY)
    seed(database)
    mine = HOURLY.model_copy(update={"every": 60.0, "enabled": False, "overlap": "allow"})
    with database.engine.begin() as connection:
        schedules.change(connection, mine, revision=1, initiator=tasks.ADA)
    assert seed(database) == 0
    declare(HOURLY.model_copy(update={"steps": made.spec("x", "domain.tidy", "domain.sweep").steps}))
    assert seed(database) == 1
    found = get(database, "domain.hourly").spec
    assert (found.every, found.enabled, found.overlap) == (60.0, False, "allow")
    assert [step.kind for (step,) in found.steps] == ["domain.tidy", "domain.sweep"]


def test_somebodys_own_schedule_of_that_name_is_left_alone(
    database: Database, declare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)
    made.add(database, "domain.hourly")
    declare(HOURLY)
    assert seed(database) == 1, "only the kernel's own"
    assert not get(database, "domain.hourly").built_in


def test_a_plug_in_that_holds_something_else_is_named(declare: Any) -> None:
    declare("not a schedule")
    with pytest.raises(InvalidSettings, match=r"plug-in domain of tenure\.schedules"):
        built_in.declared()
