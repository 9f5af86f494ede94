"""`records.retention`: objects go by their class's bounds, in batches, with their values; a dry run says it before."""

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure.store import settings
from tenure_records import create_class, delete_object, put_objects
from tenure_records.errors import InvalidClass, NoSuchClass
from tenure_records.kinds import RECORDS_RETENTION
from tenure_records.retention import get_retention, pages, set_retention
from tenure_records.retention.run import Run
from tenure_workers.kinds.records_retention import records_retention
from tests.support import aged, tasks
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.executing import run as execute
from tests.support.records import CITY, defined, put, scalar
from tests.support.tasks import scale
from tests.support.threads import together
from tests.support.until import until


def run(database: Database, **params: Any) -> dict[str, Any]:
    task_id = tasks.submit(database, RECORDS_RETENTION, params)
    execute(database, task_id, records_retention)
    task = tasks.task(database, task_id)
    assert task["state"] == "succeeded", task
    result: dict[str, Any] = task["result"]
    return result


def keep(database: Database, name: str = CITY, *, days: float | None = None, newest: int | None = None) -> None:
    with database.engine.begin() as connection:
        set_retention(connection, name, keep_days=days, keep_newest=newest)


def changed_ago(database: Database, days: float, below: int) -> None:
    """The objects k0 … below that number were last changed so long ago."""
    changed = tasks.run_sql(
        database,
        """update record_objects set updated_at = clock_timestamp() - make_interval(secs => :days * 86400)
           where key = any(array(select 'k' || n from generate_series(0, :below - 1) n))""",
        days=days,
        below=below,
    )
    assert changed == below


def keys(database: Database) -> set[str]:
    with database.engine.connect() as connection:
        return set(connection.execute(text("select key from record_objects")).scalars())


def test_objects_that_have_not_changed_for_the_age_go_with_their_values(records: Database) -> None:
    defined(records)
    put(records, 30)
    changed_ago(records, 11, below=20)
    keep(records, days=10)
    assert run(records) == {"dry_run": False, "drained": True, "rows": {CITY: 20}, "evidence": 0, "left": []}
    assert keys(records) == {f"k{n}" for n in range(20, 30)}
    assert scalar(records, "select count(*) from object_computed_data") == 10
    assert run(records, class_name=CITY)["rows"] == {}


@pytest.mark.parametrize(("newest", "left"), [(0, 0), (7, 7), (30, 30), (31, 30)])
def test_all_but_the_newest_go(records: Database, newest: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_COUNTED_AT_ONCE", 4)
    put(records, 30)
    with records.engine.connect() as connection:
        made = list(connection.execute(text("select key from record_objects order by id")).scalars())
    keep(records, newest=newest)
    assert run(records)["rows"].get(CITY, 0) == 30 - left
    assert keys(records) == set(made[30 - left :])


def test_either_bound_is_enough_and_each_class_has_its_own(records: Database) -> None:
    with records.engine.begin() as connection:
        for name in ("town", "village"):
            create_class(connection, name)
            put_objects(connection, name, [(f"{name}{n}", {}) for n in range(5)])
    put(records, 30)
    changed_ago(records, 5, below=10)
    keep(records, days=4, newest=25)
    keep(records, "town", newest=2)
    # Made first were k0, k1, k10, k11 and k12: two of them are old as well.
    assert run(records, dry_run=True)["rows"] == {CITY: 13, "town": 3}
    assert run(records, class_name="town")["rows"] == {"town": 3}
    assert run(records)["rows"] == {CITY: 13}
    assert len(keys(records)) == 17 + 2 + 5


def test_a_dry_run_counts_what_a_run_deletes(records: Database) -> None:
    put(records, 3_000)
    changed_ago(records, 3, below=1_234)
    keep(records, days=2)
    said = run(records, dry_run=True)
    assert len(keys(records)) == 3_000
    assert said | {"dry_run": False} == run(records)
    assert said["rows"] == {CITY: 1_234}


def test_a_class_without_bounds_keeps_everything_and_bounds_can_be_lifted(records: Database) -> None:
    put(records, 5)
    changed_ago(records, 3_000, below=5)
    assert run(records, class_name=CITY)["rows"] == {}
    keep(records, days=1)
    keep(records)
    assert run(records)["rows"] == {}


def test_an_object_that_is_written_meanwhile_is_kept(records: Database) -> None:
    put(records, 10)
    changed_ago(records, 3, below=10)
    keep(records, days=2)
    with records.engine.connect() as writer, writer.begin():
        put_objects(writer, CITY, [("k3", {"a": "new"})])
        assert run(records)["rows"] == {CITY: 9}
    assert keys(records) == {"k3"}
    assert run(records)["rows"] == {}


def test_who_keeps_more_while_a_run_is_under_way_is_heeded(records: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    put(records, 3_000)
    keep(records, newest=10)
    counted = pages.newest_from

    def more_kept(*given: Any) -> int:
        first = counted(*given)
        keep(records, newest=2_000)
        return first

    monkeypatch.setattr(pages, "newest_from", more_kept)
    assert run(records)["rows"] == {}
    monkeypatch.undo()
    assert run(records)["rows"] == {CITY: 1_000}


def test_two_runs_beside_writers_delete_each_object_once(records: Database) -> None:
    number = scale(20_000, 2_000)
    put(records, number)
    changed_ago(records, 3, below=number)
    keep(records, days=2)
    stop = threading.Event()

    def write() -> int:
        done = 0
        while not stop.is_set():
            with records.engine.begin() as connection:
                put_objects(connection, CITY, [(f"new{n}", {"a": done}) for n in range(20)])
                if done % 3 == 0:
                    delete_object(connection, CITY, "new7")
            done += 1
        return done

    def purge() -> int:
        try:
            return int(run(records)["rows"].get(CITY, 0))
        finally:
            stop.set()

    one, other, written = together(purge, purge, write)
    rest = run(records)["rows"].get(CITY, 0)
    assert one + other + rest == number
    assert written
    assert all(key.startswith("new") for key in keys(records))


def test_a_holder_that_lost_its_lease_deletes_nothing_more(records: Database) -> None:
    put(records, 4_000)
    changed_ago(records, 3, below=4_000)
    keep(records, days=2)
    tasks.run_sql(
        records,
        """create function slow() returns trigger language plpgsql as $$
        begin perform pg_sleep(0.0005); return old; end $$;
        create trigger slow before delete on record_objects for each row execute function slow()""",
    )
    task_id = tasks.submit(records, RECORDS_RETENTION)
    thread = threading.Thread(target=execute, args=(records, task_id, records_retention))
    thread.start()
    done = "select processed from task_checkpoints where task_id = :id"
    try:
        until(lambda: tasks.value(records, done, id=task_id))
        tasks.expire_lease(records, task_id)
    finally:
        thread.join(30)
        tasks.run_sql(records, "drop function slow() cascade")
    counted = tasks.value(records, done, id=task_id)
    assert 0 < counted < 4_000
    assert len(keys(records)) == 4_000 - counted
    assert run(records)["rows"] == {CITY: 4_000 - counted}


def test_evidence_of_a_schema_goes_some_time_after_it_was_retired(records: Database) -> None:
    class_id = scalar(records, "select id from record_classes")
    for number, days in enumerate((40, 20), start=1):
        tasks.run_sql(
            records,
            """with r as (insert into schema_revisions (class_id, number, status, schema, digest, object_bytes,
                    proposer_type, proposer_id, proposer_name, retired_at)
                values (:class_id, :number, 'retired', '{}', sha256(''), 1, 'user', '1', 'me',
                    clock_timestamp() - make_interval(days => :days)) returning id)
            insert into schema_evidence (schema_id, object_id, change_seq, verdict)
            select r.id, n, n, 'valid' from r, generate_series(1, 700) n""",
            class_id=class_id,
            number=number,
            days=days,
        )
    assert run(records, dry_run=True)["evidence"] == 700
    assert run(records, class_name=CITY)["evidence"] == 0
    assert run(records)["evidence"] == 700
    assert scalar(records, "select count(*) from schema_evidence") == 700
    aged.keep(records, settings.KEEP_EVIDENCE, 10)
    assert run(records)["evidence"] == 700


def test_evidence_goes_too_where_a_class_could_not_be_finished(
    records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(records, days=2)
    tasks.run_sql(
        records,
        """with r as (insert into schema_revisions (class_id, number, status, schema, digest, object_bytes,
                proposer_type, proposer_id, proposer_name, retired_at)
            select id, 1, 'retired', '{}', sha256(''), 1, 'user', '1', 'me', clock_timestamp() - interval '40 days'
            from record_classes returning id)
        insert into schema_evidence (schema_id, object_id, change_seq, verdict)
        select r.id, n, n, 'valid' from r, generate_series(1, 700) n""",
    )
    monkeypatch.setattr(Run, "_class", lambda *_: False)
    done = run(records)
    assert (done["left"], done["evidence"]) == ([CITY], 700)


def test_bounds_that_make_no_sense_and_unknown_classes_are_refused(records: Database) -> None:
    for days in (0, -1, 1e9, float("nan")):
        with pytest.raises(InvalidClass, match="keep_days"):
            keep(records, days=days)
    with pytest.raises(InvalidClass, match="keep_newest"):
        keep(records, newest=-1)
    with pytest.raises(NoSuchClass):
        keep(records, "nowhere", days=1)
    task_id = tasks.submit(records, RECORDS_RETENTION, {"class_name": "nowhere"})
    execute(records, task_id, records_retention)
    task = tasks.task(records, task_id)
    assert (task["state"], task["outcome"]) == ("failed", "rejected")
    assert "nowhere" in task["error"]["message"]


def test_the_command_line_sets_shows_and_runs(records: Database, broker_url: str, tmp_path: Path) -> None:
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=records.url, TENURE_BROKER_URL=broker_url)
    assert tenure.line("records", "retention", "show", CITY) == "city: for ever"
    tenure.line("records", "retention", "set", CITY, "--keep-days", "30", "--keep-newest", "5")
    assert tenure.json("records", "retention", "show", CITY) == {"class": CITY, "keep_days": 30, "keep_newest": 5}
    assert "30 days after the last change, and only the 5 made last" in tenure.line("records", "retention", "show")
    put(records, 8)
    made = tenure.json("records", "retention", "run", CITY, "--dry-run")
    execute(records, UUID(made["id"]), records_retention)
    assert tasks.task(records, UUID(made["id"]))["summary"] == "would go: 3 of city"
    tenure.line("records", "retention", "set", CITY, "--for-ever")
    with records.engine.connect() as connection:
        assert get_retention(connection, CITY).keep_days is None
    assert "--for-ever" in tenure.refusal(2, "records", "retention", "set", CITY)
    assert "nowhere" in tenure.refusal(1, "records", "retention", "run", "nowhere")
