"""A change of definitions, the new evaluation revision and the reindex task are one transaction."""

import pytest
from sqlalchemy import text

from tenure import client
from tenure.model.errors import KindIsInternal
from tenure_records import change_field, define_field, drop_class, drop_field, list_fields, preview_field, rebuild
from tenure_records.computed import MAX_SHARED_DEFINITIONS, InvalidDefinition
from tenure_records.errors import FieldExists, NoSuchClass, NoSuchField, RevisionConflict, TooManyFields
from tenure_records.kinds import REINDEX
from tests.support.databases import Database
from tests.support.records import CITY, ME, define, defined, put, scalar, state

TASKS = "select count(*) from tasks"
HINTS = "select count(*) from task_hints"


def test_a_new_field_raises_the_revision_and_creates_its_reindex(records: Database) -> None:
    put(records, 3)
    task = defined(records)
    now = state(records)
    assert (now.evaluation_revision, now.rebuild_status, now.active_task_id) == (1, "rebuilding", task)
    assert scalar(records, "select state from tasks where id = :id", id=task) == "queued"
    params = scalar(records, "select params from task_params where task_id = :id", id=task)
    highest = scalar(records, "select max(id) from record_objects")
    assert (params["revision"], params["upper"], params["class_name"]) == (1, highest, CITY)


def test_a_change_rolled_back_leaves_neither_revision_nor_task(records: Database) -> None:
    with records.engine.connect() as connection:
        define(connection)
        assert connection.execute(text(TASKS)).scalar() == 1
        connection.rollback()
    now = state(records)
    assert (now.evaluation_revision, now.rebuild_status, now.active_task_id) == (0, "ready", None)
    assert (scalar(records, TASKS), scalar(records, HINTS)) == (0, 0)
    with records.engine.connect() as connection:
        assert list_fields(connection, CITY) == []


def test_a_newer_change_cancels_the_reindex_that_is_still_queued(records: Database) -> None:
    first, second = defined(records), defined(records, "other")
    assert scalar(records, "select state from tasks where id = :id", id=first) == "cancelled"
    assert scalar(records, "select state from tasks where id = :id", id=second) == "queued"
    assert state(records).active_task_id == second


def test_label_and_description_need_no_reindex(records: Database) -> None:
    task = defined(records)
    with records.engine.begin() as connection:
        done = change_field(connection, CITY, "total", revision=1, initiator=ME, label="Sum", description="of both")
    assert (done.task, done.field.revision, done.field.label) == (None, 2, "Sum")
    assert (state(records).evaluation_revision, state(records).active_task_id) == (1, task)


@pytest.mark.parametrize("change", [{"paths": ["/a"]}, {"op": "max"}, {"result_type": "integer"}, {"enabled": False}])
def test_whatever_can_change_a_value_needs_a_reindex(records: Database, change: dict[str, object]) -> None:
    defined(records)
    with records.engine.begin() as connection:
        done = change_field(connection, CITY, "total", revision=1, initiator=ME, **change)
    assert done.evaluation_revision == state(records).evaluation_revision == 2
    assert done.task is not None


def test_a_disabled_field_may_change_without_a_reindex(records: Database) -> None:
    with records.engine.begin() as connection:
        assert define(connection, enabled=False).task is None
        assert change_field(connection, CITY, "total", revision=1, initiator=ME, op="max").task is None
        assert drop_field(connection, CITY, "total", revision=2, initiator=ME).task is None
    assert scalar(records, TASKS) == 0


def test_a_stale_revision_changes_and_drops_nothing(records: Database) -> None:
    defined(records)
    with records.engine.begin() as connection:
        change_field(connection, CITY, "total", revision=1, initiator=ME, op="max")
    for verb in (lambda c: change_field(c, CITY, "total", revision=1, initiator=ME, op="min"),
                 lambda c: drop_field(c, CITY, "total", revision=1, initiator=ME)):  # fmt: skip
        with records.engine.begin() as connection, pytest.raises(RevisionConflict, match="revision 2, not 1"):
            verb(connection)
    with records.engine.connect() as connection:
        assert [(f.operation.op, f.revision) for f in list_fields(connection, CITY)] == [("max", 2)]
    assert state(records).evaluation_revision == 2


def test_what_is_missing_taken_or_wrong_is_refused_by_name(records: Database) -> None:
    defined(records)
    with records.engine.connect() as connection:
        with pytest.raises(FieldExists, match="total"):
            define(connection)
        with pytest.raises(InvalidDefinition, match="op"):
            define(connection, "other", op="eval")
        with pytest.raises(NoSuchField, match="nope"):
            drop_field(connection, CITY, "nope", revision=1, initiator=ME)
        with pytest.raises(NoSuchClass, match="nowhere"):
            define_field(connection, "nowhere", "x", op="sum", paths=["/a"], result_type="number", initiator=ME)


def test_a_class_holds_32_fields(records: Database) -> None:
    with records.engine.begin() as connection:
        for number in range(MAX_SHARED_DEFINITIONS):
            define(connection, f"f{number}", enabled=False)
        with pytest.raises(TooManyFields, match="32"):
            define(connection, "one_more")


def test_a_rebuild_under_way_is_answered_instead_of_a_second_one(records: Database) -> None:
    task = defined(records)
    with records.engine.begin() as connection:
        made = rebuild(connection, CITY, initiator=ME)
    assert (made.id, made.created) == (task, False)
    assert scalar(records, TASKS) == 1


def test_a_reindex_is_created_by_its_domain_only(records: Database) -> None:
    with records.engine.connect() as connection, pytest.raises(KindIsInternal, match="tenure records rebuild"):
        client.submit(connection, REINDEX, {}, initiator=ME)


def test_a_preview_shows_values_and_writes_nothing(records: Database) -> None:
    put(records, 2)
    with records.engine.connect() as connection:
        shown = preview_field(connection, CITY, op="sum", paths=["/a"], result_type="number")
        assert [(one.key, one.value) for one in shown] == [("k0", 0), ("k1", 1)]
        assert connection.execute(text("select txid_current_if_assigned()")).scalar() is None


def test_a_dropped_class_takes_everything_along(records: Database) -> None:
    defined(records)
    put(records, 2)
    with records.engine.begin() as connection:
        drop_class(connection, CITY)
    for table in ("record_objects", "object_computed_data", "computed_field_definitions", "class_computation_state"):
        assert scalar(records, f"select count(*) from {table}") == 0
