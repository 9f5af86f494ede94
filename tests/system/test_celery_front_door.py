"""A real worker, and Celery apps that are not ours: they know a broker's URL and the name of a kind, nothing else."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from celery import Celery, chain, group, signature
from sqlalchemy import make_url, text

from tenure import client
from tenure.settings import PREFIX, Settings
from tenure_celery.app import TenureCelery
from tenure_celery.errors import TaskFailed
from tenure_celery.ids import row_id
from tests.support.celery_events import CeleryEvents
from tests.support.databases import Database
from tests.support.kinds.leaky import leaky
from tests.support.kinds.ledger import ledger
from tests.support.submitted import TESTER, Tasks
from tests.support.until import until
from tests.support.workers import Worker

CANARY = "canary-f0e1"


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str, tasks: Tasks) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, queues="default,celery") as made:
        made.wait_ready()
        yield made


@pytest.fixture
def foreign(worker: Worker, module_broker: str) -> Iterator[Celery]:
    with Celery("elsewhere", broker=module_broker, set_as_current=False) as app:
        yield app


@pytest.fixture
def ours(worker: Worker, module_database: Database) -> Iterator[TenureCelery]:
    settings = Settings(database_url=module_database.url)  # type: ignore[arg-type]
    with TenureCelery("shop", kinds=[ledger, leaky], settings=settings, set_as_current=False) as app:
        yield app


def rejected(tasks: Tasks, worker: Worker, celery_id: str) -> str:
    """The reason, once it ended so, without params."""
    task_id = row_id(celery_id)
    until(lambda: tasks.rows("select 1 from tasks where id = :id", id=task_id), 10)
    tasks.wait_ended([task_id], 10, watch=[worker])
    assert tasks.states([task_id]) == {"failed rejected": 1}
    assert tasks.rows("select 1 from task_params where task_id = :id", id=task_id) == []
    return str(tasks.one("select error_message from tasks where id = :id", id=task_id))


def ended(tasks: Tasks, worker: Worker, *celery_ids: str) -> list[UUID]:
    found = [row_id(one) for one in celery_ids]
    until(lambda: len(tasks.rows("select 1 from tasks where id = any(:ids)", ids=found)) == len(found), 10)
    tasks.wait_ended(found, 20, watch=[worker])
    return found


def test_a_foreign_send_task_is_a_task_under_its_own_id(foreign: Celery, tasks: Tasks, worker: Worker) -> None:
    sent = foreign.send_task("ledger", kwargs={"steps": "3"})
    (task_id,) = ended(tasks, worker, sent.id)
    tasks.assert_exactly_once([task_id], 3)
    with tasks.engine.connect() as connection:
        (listed,) = [row for row in client.tasks(connection, kind="ledger") if row["id"] == task_id]
    assert (listed["queue"], listed["initiator_type"]) == ("default", "celery")
    assert listed["initiator_id"] == f"gen{listed['initiator_id'][3:]}"
    assert "@" in listed["initiator_id"]
    assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "succeed"]


def test_the_same_message_five_times_runs_once(foreign: Celery, tasks: Tasks, worker: Worker) -> None:
    own = "order-42"
    for _ in range(5):
        foreign.send_task("ledger", kwargs={"steps": 2}, task_id=own)
    (task_id,) = ended(tasks, worker, own)
    foreign.send_task("ledger", kwargs={"steps": 2}, task_id=own)
    ended(tasks, worker, foreign.send_task("ledger").id)
    tasks.assert_exactly_once([task_id], 2)
    assert tasks.one("select labels->>'celery_id' from tasks where id = :id", id=task_id) == own
    assert [verb for verb, _ in tasks.history(task_id)].count("claim") == 1


REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"kwargs": {"steps": CANARY}}, "ledger: steps: Input should be a valid integer"),
    ({"kwargs": {"color": CANARY}}, "ledger: color: Extra inputs"),
    ({"args": [CANARY]}, "ledger: args: positional arguments are not supported"),
    ({"link": signature("ledger")}, "ledger: link is not supported by Tenure: submit"),
    ({"time_limit": 3}, "ledger: time_limit is not supported by Tenure: declare run_limit"),
    ({"headers": {"x-tenure-options": {"labels": 7}}}, "ledger: labels: give a mapping"),
    ({"priority": 12}, "ledger: priority 12: Celery's priorities are 0 to 9"),
]


@pytest.mark.parametrize(("call", "said"), REJECTED, ids=[said for _, said in REJECTED])
def test_what_cannot_be_run_ends_rejected_and_names_it(
    foreign: Celery, tasks: Tasks, worker: Worker, call: dict[str, Any], said: str
) -> None:
    reason = rejected(tasks, worker, foreign.send_task("ledger", **call).id)
    assert said in reason
    assert CANARY not in reason


def test_a_chain_of_a_foreign_app_is_rejected_by_name(foreign: Celery, tasks: Tasks, worker: Worker) -> None:
    one = foreign.signature("ledger", immutable=True)
    last = chain(one, one).apply_async()
    assert "chain is not supported" in rejected(tasks, worker, last.parent.id)


def test_an_internal_kind_and_an_unreadable_body_are_rejected(
    foreign: Celery, tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    assert "domain.rebuild()" in rejected(tasks, worker, foreign.send_task("tests.internal").id)
    with foreign.connection_for_write() as connection:
        own, producer = str(uuid4()), foreign.amqp.Producer(connection)
        producer.publish([CANARY], routing_key="celery", headers={"task": "ledger", "id": own}, serializer="json")
        assert "body: it is not what Celery sends" in rejected(tasks, worker, own)
        producer.publish([[], {}, {}], routing_key="celery", headers={"task": "ledger", "id": 7}, serializer="json")
        producer.publish([[CANARY], {}, {}], routing_key="celery", headers={"task": "not.ours", "id": "x"})
        producer.publish(CANARY, routing_key="celery", serializer="json")
    worker.wait_for("invalid_message")
    worker.wait_for("unknown_task")
    worker.wait_for("unknown_message")
    assert CANARY not in worker.text()


def test_what_is_another_apps_stays_in_the_shared_queue_and_later_messages_are_adopted(
    foreign: Celery, tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    for number in range(5):
        foreign.send_task("another.app", task_id=f"theirs-{number}")
    sent = foreign.send_task("ledger", kwargs={"steps": 1})
    tasks.wait_ended([UUID(sent.id)], 30, watch=[worker])

    def left() -> set[str]:
        with redis.Redis.from_url(module_broker) as broker:
            waiting = [json.loads(one)["headers"]["id"] for one in broker.lrange("celery", 0, -1)]
            held = [json.loads(one)[0]["headers"]["id"] for one in broker.hvals("unacked")]
        return {one for one in [*waiting, *held] if str(one).startswith("theirs-")}

    until(lambda: len(left()) == 5, 5)
    assert left() == {f"theirs-{number}" for number in range(5)}
    with redis.Redis.from_url(module_broker) as broker:
        broker.delete("celery")


def test_a_countdown_is_a_scheduled_row_at_once(
    foreign: Celery, tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    sent = foreign.send_task("ledger", countdown=3600, expires=7200)
    until(lambda: tasks.rows("select 1 from tasks where id = :id and state = 'scheduled'", id=UUID(sent.id)), 10)
    assert 7100 < tasks.one("select extract(epoch from start_by - created_at) from tasks where id = :id", id=UUID(sent.id)) < 7201  # fmt: skip
    with redis.Redis.from_url(module_broker) as broker:
        until(lambda: broker.hlen("unacked") == 0, 10)  # no worker holds it until then


def test_what_a_foreign_task_was_given_is_shown_nowhere(
    foreign: Celery, tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    with CeleryEvents(module_broker) as events:
        sent = foreign.send_task("leaky", kwargs={"secret": CANARY, "how": "wait"})
        until(lambda: tasks.rows("select 1 from tasks where id = :id and state = 'running'", id=UUID(sent.id)), 10)
        inspect = foreign.control.inspect(timeout=1.0, limit=1)
        active = inspect.active()
        assert sent.id in json.dumps(active)
        shown = [active, inspect.query_task(sent.id), inspect.reserved(), inspect.scheduled()]
        foreign.control.revoke(sent.id)  # a broadcast: Celery's own would only remember the id
        ended(tasks, worker, sent.id)
        until(lambda: "task-revoked" in events.by_task().get(sent.id, []), 10)
        assert CANARY not in json.dumps([shown, events.all()], default=str)
    assert CANARY not in worker.text()
    assert tasks.states([UUID(sent.id)]) == {"cancelled": 1}
    assert not foreign.control.inspect(timeout=1.0, limit=1).revoked()["one@test"]


def test_a_revoked_id_is_not_eaten(foreign: Celery, tasks: Tasks, worker: Worker) -> None:
    own = str(uuid4())
    foreign.control.revoke(own, reply=True, timeout=1.0)
    foreign.control.terminate(own, reply=True, timeout=1.0)
    foreign.send_task("ledger", task_id=own)
    assert tasks.states(ended(tasks, worker, own)) == {"succeeded": 1}


def test_our_app_gets_results_states_and_errors_of_a_real_worker(ours: TenureCelery, tasks: Tasks) -> None:
    result = ours.kinds["ledger"].delay(steps=4, seconds=0.2)
    until(lambda: result.state == "STARTED" and (result.info or {}).get("processed"), 20)
    assert result.info["total"] == 4
    assert result.get(timeout=30) == {"steps": 4}
    assert result.state == "SUCCESS"
    with pytest.raises(TaskFailed, match="leaky: error: unexpected ValueError") as failed:
        ours.kinds["leaky"].delay(secret=CANARY, how="raise").get(timeout=30)
    assert CANARY not in str(failed.value)
    members = group(ours.kinds["ledger"].s(steps=n) for n in (1, 2, 3)).apply_async()
    assert members.get(timeout=30) == [{"steps": 1}, {"steps": 2}, {"steps": 3}]


def test_get_answers_soon_after_the_end(ours: TenureCelery, tasks: Tasks) -> None:
    late = []
    for _ in range(5):
        result = ours.kinds["ledger"].delay(steps=2, seconds=0.1)
        result.get(timeout=30)
        late.append(tasks.one("select extract(epoch from clock_timestamp() - finished_at) from tasks where id = :id", id=UUID(result.id)))  # fmt: skip
    assert sorted(late)[2] < 0.4, "the median of five: naps grow with the wait"


def test_a_foreign_app_reads_results_with_the_backend_alone(
    worker: Worker, module_broker: str, module_database: Database
) -> None:
    backend = f"tenure+rows://{module_database.url.removeprefix(PREFIX)}"
    with Celery("elsewhere", broker=module_broker, backend=backend, set_as_current=False) as app:
        result = app.send_task("ledger", kwargs={"steps": 2})
        assert result.get(timeout=30) == {"steps": 2}
        assert str(make_url(module_database.url).password) not in app.backend.as_uri()
        with pytest.raises(TaskFailed, match="rejected: ledger: steps"):
            app.send_task("ledger", kwargs={"steps": "many"}).get(timeout=30)


def test_adoption_outlives_a_lost_database_session(
    foreign: Celery, tasks: Tasks, worker: Worker, module_database: Database
) -> None:
    ended(tasks, worker, foreign.send_task("ledger").id)
    module_database.accept_connections(False)
    try:
        tasks.rows("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
                   "and application_name like 'tenure%'")  # fmt: skip
        sent = foreign.send_task("ledger", kwargs={"steps": 2})
        worker.wait_for("database_away")
    finally:
        module_database.accept_connections(True)
    tasks.assert_exactly_once(ended(tasks, worker, sent.id), 2)


def test_a_worker_with_foreign_work_stops_cleanly(foreign: Celery, tasks: Tasks, worker: Worker) -> None:
    sent = [foreign.send_task("ledger.handed_on", kwargs={"steps": 50, "seconds": 0.1}) for _ in range(2)]
    until(lambda: tasks.leases() == 2, 10)
    began = time.monotonic()
    code, seconds = worker.stop()
    assert (code, tasks.leases()) == (0, 0)
    assert seconds < 10
    assert time.monotonic() - began < 15
    assert "Traceback" not in worker.text()
    with tasks.engine.begin() as connection:  # handed on, or never received: the next worker is not to have them
        for task_id in connection.execute(text("select id from tasks where state = 'queued'")).scalars().all():
            client.cancel(connection, task_id, initiator=TESTER)
    assert tasks.states([UUID(one.id) for one in sent]) == {"cancelled": 2}


def test_a_threads_pool_adopts_as_well(module_database: Database, module_broker: str, tasks: Tasks) -> None:
    with (
        Worker(module_database.url, module_broker, name="two", pool="threads", queues="default,celery") as worker,
        Celery("elsewhere", broker=module_broker, set_as_current=False) as app,
    ):
        worker.wait_ready()
        sent = [app.send_task("ledger", kwargs={"steps": 2}).id for _ in range(4)]
        tasks.assert_exactly_once(ended(tasks, worker, *sent), 2)
        assert worker.stop()[0] == 0


def test_a_message_that_cannot_be_stored_at_a_stop_goes_back_to_the_broker(database: Database, broker_url: str) -> None:
    with (
        Worker(database.url, broker_url, name="three", queues="default,celery") as worker,
        Celery("elsewhere", broker=broker_url, set_as_current=False) as app,
        redis.Redis.from_url(broker_url) as broker,
    ):
        worker.wait_ready()
        database.accept_connections(False)
        sent = app.send_task("ledger")
        worker.wait_for("database_away")
        assert worker.stop()[0] == 0
        (message,) = broker.lrange("celery", 0, -1)
        assert json.loads(message)["headers"]["id"] == sent.id
