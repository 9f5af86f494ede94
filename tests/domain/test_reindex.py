"""The reindex: fenced by its revision, never older over newer, resumable, and honest when it fails."""

import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tenure.model.kinds import kind
from tenure.model.records import Holder
from tenure.store.hot import HotSession
from tenure.store.transitions import recover
from tenure_records import change_field, drop_class, drop_field, put_object, rebuild, reindex, restart_failed
from tenure_records.kinds import REINDEX, Reindex
from tenure_workers.kinds.reindex import Cursor, records_reindex
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import CITY, ME, computed, defined, put, scalar, state, stored


def task(records: Database, task_id: uuid.UUID) -> Any:
    with records.engine.connect() as connection:
        return connection.execute(
            text("""select t.state, t.outcome, t.attempt, c.processed, c.total, c.sequence from tasks t
                left join task_checkpoints c on c.task_id = t.id where t.id = :id"""),
            {"id": task_id},
        ).one()


def params_of(records: Database, task_id: uuid.UUID) -> Reindex:
    return Reindex(**scalar(records, "select params from task_params where task_id = :id", id=task_id))


def small_pages(records: Database, task_id: uuid.UUID, rows: int = 2) -> None:
    with records.engine.begin() as connection:
        connection.execute(
            text("update task_params set params = params || jsonb_build_object('page_rows', cast(:n as int)) where task_id = :id"),
            {"n": rows, "id": task_id},
        )  # fmt: skip


def test_a_reindex_materialises_every_object_and_makes_the_class_ready(records: Database) -> None:
    put(records, 5)
    made = defined(records)
    small_pages(records, made)
    assert computed(records, "k4") == ({"total": 4}, True)
    assert run(records, made, records_reindex) == 1
    done = task(records, made)
    assert (done.state, done.processed, done.total, done.sequence) == ("succeeded", 5, 5, 3)
    assert stored(records) == [(f"k{n}", 1, {"total": n}) for n in range(5)]
    assert computed(records, "k4") == ({"total": 4}, False)
    assert state(records).rebuild_status == "ready"


def test_an_empty_class_is_ready_at_once(records: Database) -> None:
    made = defined(records)
    run(records, made, records_reindex)
    assert (task(records, made).state, state(records).rebuild_status) == ("succeeded", "ready")


def between(records: Database, happens: Callable[[], None]) -> uuid.UUID:
    """A reindex of five objects in pages of two, with something happening between its first page and its second."""
    put(records, 5)
    made = defined(records)
    small_pages(records, made)
    pages = 0
    real = reindex.store

    def storing(*given: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            happens()  # the page is read and evaluated already, and holds no lock yet
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reindex, "store", storing)
        run(records, made, records_reindex)
    return made


def test_a_superseded_reindex_stores_no_further_page_and_ends_cancelled(records: Database) -> None:
    newer: list[uuid.UUID] = []
    made = between(records, lambda: newer.append(defined(records, "other", op="max")))
    assert (task(records, made).state, task(records, made).processed) == ("cancelled", 2)
    assert [(key, revision) for key, revision, _ in stored(records)] == [("k0", 1), ("k1", 1)]
    assert (state(records).rebuild_status, state(records).active_task_id) == ("rebuilding", newer[0])
    run(records, newer[0], records_reindex)
    assert stored(records) == [(f"k{n}", 2, {"total": n, "other": n}) for n in range(5)]


def test_a_page_never_puts_older_data_over_a_newer_write(records: Database) -> None:
    def write() -> None:
        with records.engine.begin() as connection:
            put_object(connection, CITY, "k2", {"a": 200})
            put_object(connection, CITY, "new", {"a": 300})

    made = between(records, write)
    assert (task(records, made).state, task(records, made).processed) == ("succeeded", 5)
    assert computed(records, "k2") == ({"total": 200}, False)
    assert computed(records, "new") == ({"total": 300}, False)


def test_an_object_deleted_meanwhile_leaves_no_value_behind(records: Database) -> None:
    def delete() -> None:
        with records.engine.begin() as connection:
            connection.execute(text("delete from record_objects where key = 'k2'"))

    assert task(records, between(records, delete)).state == "succeeded"
    assert scalar(records, "select count(*) from object_computed_data") == 4


def test_a_class_dropped_meanwhile_ends_its_reindex_as_cancelled(records: Database) -> None:
    def drop() -> None:
        with records.engine.begin() as connection:
            drop_class(connection, CITY)

    assert task(records, between(records, drop)).state == "cancelled"
    assert scalar(records, "select count(*) from object_computed_data") == 0


def test_a_class_dropped_before_its_reindex_fails_it_with_the_reason(records: Database) -> None:
    put(records, 1)
    made = defined(records)
    with records.engine.begin() as connection:
        drop_class(connection, CITY)
    run(records, made, records_reindex)
    assert (task(records, made).state, task(records, made).outcome) == ("failed", "rejected")
    said = scalar(records, "select array[status, message] from activities where id = :id", id=made)
    assert said == ["failed", "class city has been dropped: there is nothing to evaluate"]


def test_a_reindex_counts_what_it_evaluated_and_names_objects_with_errors(records: Database) -> None:
    put(records, 3)
    with records.engine.begin() as connection:
        put_object(connection, CITY, "odd", {"a": "no number", "b": "neither"})
    made = defined(records)
    run(records, made, records_reindex)
    assert task(records, made).state == "succeeded"
    counted = (
        "select jsonb_object_agg(change, objects) from activity_statistics where activity_id = :id and nested = :n"
    )
    assert scalar(records, counted, id=made, n=False) == {"evaluated": 3, "evaluated_with_errors": 1}
    (code,) = scalar(records, counted, id=made, n=True)
    named = scalar(
        records,
        """select jsonb_build_array(i.object_type, o.key, i.error_code, i.outcomes) from activity_items i
           join record_objects o on o.id = i.object_id::bigint""",
    )
    assert named == [CITY, "odd", None, [{"outcome": code, "object_type": "field", "object_id": "total"}]]


def test_a_failure_leaves_the_class_failed_readers_right_and_a_restart_resumes_the_work(records: Database) -> None:
    put(records, 4)
    made = defined(records)
    small_pages(records, made)

    @kind(REINDEX)
    def failing(attempt: Any, params: Any) -> None:
        raise RuntimeError("boom")

    with records.engine.begin() as connection:
        connection.execute(text("update tasks set max_attempts = 1"))
    with capture_logs() as logs:
        run(records, made, failing)
    assert [line["error"] for line in logs if line["event"] == "attempt_failed"] == ["RuntimeError"]
    now = state(records)
    assert (task(records, made).state, now.rebuild_status, now.last_error) == (
        "failed", "failed", "the rebuild ended as failed",
    )  # fmt: skip
    assert computed(records, "k3") == ({"total": 3}, True)
    with records.engine.begin() as connection:
        (again,) = restart_failed(connection, initiator=ME)
        assert restart_failed(connection, initiator=ME) == []
    run(records, again.id, records_reindex)
    assert (state(records).rebuild_status, len(stored(records))) == ("ready", 4)


def test_a_lost_attempt_is_resumed_after_its_last_page(records: Database) -> None:
    put(records, 5)
    made = defined(records)
    session = HotSession(records.url, Holder(uuid.uuid4(), os.getpid()), [REINDEX.name], lease_seconds=30)
    assert session.claim(made)
    session.close()
    with records.engine.begin() as connection:
        values = {"id": made, "cursor": Cursor(after=3).model_dump_json()}
        connection.execute(
            text("""insert into task_checkpoints (task_id, sequence, token, cursor, total, processed, succeeded)
                select task_id, 1, token, cast(:cursor as jsonb), 5, 3, 3 from task_leases where task_id = :id"""),
            values,
        )
        connection.execute(text("update task_leases set expires = clock_timestamp() - interval '1 s'"))
        recover.recover_expired(connection, crash_bound=3)
    run(records, made, records_reindex)
    done = task(records, made)
    assert (done.state, done.attempt, done.processed, done.total) == ("succeeded", 2, 5, 5)
    assert [key for key, _, _ in stored(records)] == ["k3", "k4"]  # the others were committed, as the cursor says


def test_dropping_the_last_field_clears_the_values(records: Database) -> None:
    put(records, 3)
    run(records, defined(records), records_reindex)
    with records.engine.begin() as connection:
        dropped = drop_field(connection, CITY, "total", revision=1, initiator=ME)
    assert dropped.task is not None
    small_pages(records, dropped.task.id)
    run(records, dropped.task.id, records_reindex)
    assert (stored(records), state(records).rebuild_status) == ([], "ready")


def test_a_rebuild_repairs_what_claims_to_be_fresh(records: Database) -> None:
    put(records, 3)
    run(records, defined(records), records_reindex)
    with records.engine.begin() as connection:
        connection.execute(text("""update object_computed_data set values = '{"total": 99}'"""))
        made = rebuild(connection, CITY, initiator=ME)
    assert made.created
    run(records, made.id, records_reindex)
    assert stored(records) == [(f"k{n}", 1, {"total": n}) for n in range(3)]


def test_what_writers_have_materialised_since_the_change_is_not_written_again(records: Database) -> None:
    put(records, 2)
    made = defined(records)
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k0", {"a": 7})
        before = connection.execute(text("select ctid::text from object_computed_data")).scalar()
    run(records, made, records_reindex)
    assert scalar(records, "select ctid::text from object_computed_data where object_id = 1") == before
    assert stored(records) == [("k0", 1, {"total": 7}), ("k1", 1, {"total": 1})]


def test_finishing_twice_says_the_same_and_a_stranger_cannot(records: Database) -> None:
    made = defined(records)
    params = params_of(records, made)
    with records.engine.begin() as connection:
        assert not reindex.finish(connection, params, uuid.uuid4())
        assert reindex.finish(connection, params, made)
        assert reindex.finish(connection, params, made)
        change_field(connection, CITY, "total", revision=1, initiator=ME, op="max")
        assert not reindex.finish(connection, params, made)


def test_pages_of_large_objects_are_cut_smaller() -> None:
    params = Reindex(class_id=1, class_name=CITY, revision=1, upper=10, page_rows=1000)
    large = reindex.Page(last=100, rows=100, characters=100 * 1024 * 1024)
    assert reindex.next_rows(params, large) == 8
    assert reindex.next_rows(params, reindex.Page(last=100, rows=100, characters=100 * 100)) == 1000
