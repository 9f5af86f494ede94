"""SIGKILL of a worker in mid-scan, beside writers: resumed elsewhere from the last checkpoint, and then strict holds."""

from collections.abc import Callable

from sqlalchemy import text

from tenure import client
from tenure.model.records import Initiator
from tenure_records import activate, create_class, impact, propose_schema, put_objects, show_schema
from tests.support.databases import Database
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1", "TENURE_REAP_SECONDS": "1"}
ME = Initiator("user", "1000", "tester")
NAME = "people"
_HALF = """select w.node, c.processed, l.token from task_checkpoints c join task_leases l using (task_id)
    join workers w on w.boot_id = l.worker where task_id = :id and c.processed >= :least"""


def test_a_scan_whose_worker_is_killed_goes_on_elsewhere_and_its_evidence_carries_a_strict_schema(
    database: Database, make_broker_url: Callable[[], str]
) -> None:
    count, broker, tasks = scaled(10_000, 200_000), make_broker_url(), Tasks(database.engine)
    with database.engine.begin() as connection:
        create_class(connection, NAME)
        put_objects(connection, NAME, [(f"k{n:06}", {"n": n}) for n in range(count)])
        propose_schema(connection, NAME, {"required": ["n"]}, initiator=ME)
    with (
        Worker(database.url, broker, name="a", env=SHORT_LEASE, concurrency=1) as a,
        Worker(database.url, broker, name="b", env=SHORT_LEASE, concurrency=1) as b,
    ):
        a.wait_ready()
        b.wait_ready()
        with database.engine.begin() as connection:
            task_id = impact(connection, NAME, initiator=ME).id
            # One object a batch: a scan that can be killed in the middle.
            connection.execute(
                text("update task_params set params = params || jsonb_build_object('batch_rows', 1) where task_id = :id"),
                {"id": task_id},
            )  # fmt: skip
        node, _, token = until(lambda: tasks.rows(_HALF, id=task_id, least=count // 10), 60, pace=0.01)[0]
        (a if node.startswith("a@") else b).kill()
        committed = tasks.one("select processed from task_checkpoints where task_id = :id", id=task_id)
        with database.engine.begin() as connection:
            put_objects(connection, NAME, [("k000001", {"n": "other"}), ("new", {"n": 0})])
        tasks.wait_ended([task_id], 120, watch=[a, b])
    with database.engine.begin() as connection:
        done = client.get(connection, task_id)
        tally = show_schema(connection, NAME).open[0].tally
    assert 0 < committed < count, "killed too late for this test to say anything"
    assert (done["state"], done["counters"]["processed"]) == ("succeeded", count)
    assert [one["how"] for one in done["attempts"]] == ["lost", "succeeded"]
    written = tasks.rows("select token, count(*) from schema_evidence where token is not null group by 1 order by 1")
    assert written[0][0] == token < written[1][0]
    # One of the first attempt's rows has been replaced by its object's writer; no other was judged twice, or not at all.
    assert written[0][1] >= committed - 1
    assert written[0][1] + 1 + written[1][1] == count
    assert (tally.valid, tally.objects) == (count + 1, count + 1)
    assert activate(database.engine.begin, NAME, mode="strict", initiator=ME).mode == "strict"
