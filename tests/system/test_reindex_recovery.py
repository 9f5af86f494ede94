"""SIGKILL of a worker in mid-reindex: resumed elsewhere from the last checkpoint, and the values are those of a calm run."""

from collections.abc import Callable
from uuid import UUID

from sqlalchemy import Engine, text

from tenure import client
from tenure.model.records import Initiator
from tenure_records import create_class, define_field, put_objects
from tests.support.databases import Database
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

LEASE_S, SWEEP_S = 3.0, 1.0
SHORT_LEASE = {
    "TENURE_LEASE_SECONDS": f"{LEASE_S:g}",
    "TENURE_RENEW_SECONDS": "1",
    "TENURE_REAP_SECONDS": f"{SWEEP_S:g}",
}
SLACK_S = 2.0  # of a busy machine
ME = Initiator("user", "1000", "tester")
FIELDS = (
    ("total", "sum", ["/n", "/m"], "number"),
    ("mean", "average", ["/n", "/m"], "number"),
    ("first", "first_non_null", ["/name", "/n"], "string"),
    ("known", "count_present", ["/name", "/n", "/m"], "integer"),
)
_VALUES = text("""select o.key, c.values::text, c.errors::text, encode(c.source_digest, 'hex')
    from object_computed_data c join record_objects o on o.class_id = c.class_id and o.id = c.object_id
    join record_classes k on k.id = o.class_id where k.name = :name order by o.key""")


def _filled(engine: Engine, name: str, count: int) -> None:
    """A class of so many objects, some without a name."""
    with engine.begin() as connection:
        create_class(connection, name)
        for low in range(0, count, 2_000):
            some = range(low, min(low + 2_000, count))
            rows = [(f"k{n:06}", {"n": n, "m": n / 7, "name": f"ö{n}" if n % 3 else None}) for n in some]
            put_objects(connection, name, rows)


def _defined(engine: Engine, name: str) -> UUID:
    """Its fields, all in one transaction; the reindex that is left, in pages small enough to be killed between."""
    with engine.begin() as connection:
        for key, op, paths, result in FIELDS:
            change = define_field(connection, name, key, op=op, paths=paths, result_type=result, initiator=ME)
        assert change.task is not None
        small = text(
            "update task_params set params = params || jsonb_build_object('page_rows', 50) where task_id = :id"
        )
        assert connection.execute(small, {"id": change.task.id}).rowcount == 1
    return change.task.id


def _half_done(tasks: Tasks, task_id: UUID, least: int) -> str | None:
    """The node that holds the task, once so much is committed."""
    rows = tasks.rows(
        """select w.node from task_checkpoints c join task_leases l using (task_id) join workers w on w.boot_id = l.worker
            where task_id = :id and c.processed >= :least""",
        id=task_id,
        least=least,
    )
    return rows[0][0] if rows else None


def test_a_reindex_whose_worker_is_killed_resumes_elsewhere_and_gives_the_same_bytes(
    database: Database, make_broker_url: Callable[[], str]
) -> None:
    count, broker, tasks = scaled(10_000, 200_000), make_broker_url(), Tasks(database.engine)
    _filled(database.engine, "calm", count)
    _filled(database.engine, "killed", count)
    with (
        Worker(database.url, broker, name="a", env=SHORT_LEASE, concurrency=1) as a,
        Worker(database.url, broker, name="b", env=SHORT_LEASE, concurrency=1) as b,
    ):
        a.wait_ready()
        b.wait_ready()
        tasks.wait_ended([_defined(database.engine, "calm")], 120, watch=[a, b])
        task_id = _defined(database.engine, "killed")
        until(lambda: _half_done(tasks, task_id, count // 4), 60, pace=0.01)
        victim = a if (_half_done(tasks, task_id, 0) or "").startswith("a@") else b
        victim.kill()
        ((committed, token, expires),) = tasks.rows(
            "select c.processed, l.token, l.expires from task_checkpoints c join task_leases l using (task_id) where task_id = :id",
            id=task_id,
        )
        tasks.wait_ended([task_id], 120, watch=[a, b])
    phases = "select path, status, done, total from activity_phases where task_id = :id order by position"
    assert tasks.rows(phases, id=task_id) == [
        ("evaluate", "completed", count, count), ("publish", "completed", None, None),
    ]  # fmt: skip
    with database.engine.connect() as connection:
        done = client.get(connection, task_id)
        calm, killed = (connection.execute(_VALUES, {"name": name}).all() for name in ("calm", "killed"))
    assert 0 < committed < count, "killed too late for this test to say anything"
    assert done["state"] == "succeeded"
    assert len(killed) == count
    assert killed == calm
    assert done["counters"]["processed"] == done["counters"]["total"] == count
    assert [one["how"] for one in done["attempts"]] == ["lost", "succeeded"]
    assert done["attempts"][0]["token"] == token < done["attempts"][1]["token"]
    assert (done["attempts"][1]["created_at"] - expires).total_seconds() <= SWEEP_S + SLACK_S
