"""The dispatcher, stepped against a real broker: what it publishes, in which order, and what it does when that is away."""

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import structlog

from tenure.model.errors import BrokerUnavailable
from tenure.model.kinds import KindSpec, kind
from tenure.registry import Registry
from tenure.runtime.attempt import Attempt
from tenure.runtime.channel import StopChannel
from tenure.runtime.health import Health
from tenure.runtime.keeper import Keeper
from tenure.runtime.metrics import Metrics
from tenure.services.dispatcher import BUSY_NET_AGE, Dispatcher
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store import workers
from tenure.store.hints import Hint
from tenure.store.workers import Boot
from tenure_celery.app import make_app
from tenure_celery.broker import EPOCH_KEY, CeleryBroker, RedisBroker
from tenure_celery.envelope import envelope
from tests.support.databases import Database
from tests.support.proxy import Proxy
from tests.support.servers import OwnServers
from tests.support.slot import Bench

Make = Callable[..., Bench]
SLOTS = 3


@kind("sent")
def sent(attempt: Attempt, params: object) -> None:
    pass


@kind("bulky", queue="bulk")
def bulky(attempt: Attempt, params: object) -> None:
    pass


@kind("stranger")
def stranger(attempt: Attempt, params: object) -> None:
    pass


class Post:
    """A dispatcher between a bench's database and a broker, and what lies in that."""

    def __init__(self, bench: Bench, broker_url: str) -> None:
        self.bench = bench
        self.settings = Settings(database_url=bench.settings.client_url, broker_url=broker_url)
        self.redis = redis.Redis.from_url(broker_url)
        self.broker = RedisBroker(broker_url)
        self.dispatcher = Dispatcher(self.settings, self.broker)

    def worker(self, slots: int = SLOTS, queues: tuple[str, ...] = ("default", "bulk"), **changed: Any) -> UUID:
        """A worker that was seen just now."""
        boot = Boot(uuid4(), "node", "worker", 1, "1", slots, queues, changed.pop("kinds", ["sent", "bulky"]))
        with self.bench.engine.begin() as connection:
            workers.register(connection, boot)
        for column, value in changed.items():
            self.bench.rows(f"update workers set {column} = {value} where boot_id = :b", b=boot.boot_id)
        return boot.boot_id

    def step(self) -> float:
        """One round in which nothing is remembered of who is there."""
        self.dispatcher._served_at = 0.0
        return self.dispatcher.run_once()

    def pop(self, queue: str = "default") -> list[UUID]:
        """All that lies in the broker's queue, in the order in which workers take it."""
        found = []
        while (raw := self.redis.rpop(queue)) is not None:
            found.append(UUID(json.loads(raw)["headers"]["id"]))  # type: ignore[arg-type]
        return found

    def close(self) -> None:
        self.dispatcher.close()
        self.redis.close()


@pytest.fixture
def post(make_bench: Make, broker_url: str) -> Iterator[Post]:
    made = Post(make_bench(sent, bulky), broker_url)
    yield made
    made.close()


def test_it_publishes_by_priority_then_age_and_no_more_than_there_are_slots(post: Post) -> None:
    tasks = [post.bench.submit(sent, priority=priority) for priority in (0, 0, 1, 2, 2)]
    post.worker()
    assert post.step() == 0.0
    assert post.redis.llen("default") == SLOTS
    post.step()
    assert post.redis.llen("default") == SLOTS, "nothing more while the slots' worth waits"
    assert post.pop() == [tasks[3], tasks[4], tasks[2]]
    assert post.bench.hints() == tasks[:2]
    post.step()
    assert post.pop() == tasks[:2]
    assert post.bench.hints() == []


def test_each_queue_has_its_own_room_and_each_live_worker_adds_its_slots(post: Post) -> None:
    for _ in range(9):
        post.bench.submit(sent)
        post.bench.submit(bulky)
    post.worker(2)
    post.worker(1, ("bulk",))
    post.worker(8, last_seen="clock_timestamp() - interval '16 seconds'")
    post.worker(8, ended_at="clock_timestamp()")
    post.worker(8, role="'beat'")
    post.step()
    assert (len(post.pop("default")), len(post.pop("bulk"))) == (2, 3)


def test_without_a_worker_nothing_leaves_the_database(post: Post) -> None:
    task = post.bench.submit(sent)
    post.step()
    assert post.pop() == []
    assert post.bench.hints() == [task]


@pytest.mark.parametrize("what, name", [("kind", "sent"), ("queue", "default")])
def test_what_is_paused_is_skipped_until_it_is_resumed(post: Post, what: str, name: str) -> None:
    task, other = post.bench.submit(sent), post.bench.submit(bulky)
    post.worker()
    post.bench.rows("insert into pauses (what, name, paused_by) values (:w, :n, 'tester')", w=what, n=name)
    post.step()
    assert (post.pop(), post.pop("bulk")) == ([], [other])
    assert post.bench.hints() == [task]
    post.bench.rows("delete from pauses")
    post.step()
    assert post.pop() == [task]


def test_hints_whose_time_has_not_come_and_kinds_nobody_knows_stay(post: Post) -> None:
    later, unknown, task = post.bench.submit(sent), post.bench.submit(stranger), post.bench.submit(sent)
    post.bench.rows(
        "update task_hints set not_before = clock_timestamp() + interval '1 hour' where task_id = :t", t=later
    )
    post.worker()
    post.step()
    assert post.pop() == [task]
    assert post.bench.hints() == [later, unknown]


def test_it_never_locks_a_task_it_publishes(post: Post) -> None:
    task = post.bench.submit(sent)
    post.worker()
    with post.bench.engine.begin() as connection:
        connection.exec_driver_sql("select 1 from tasks for update")
        post.step()
    assert post.pop() == [task]


def test_two_dispatchers_publish_no_hint_twice(post: Post, make_bench: Make, broker_url: str) -> None:
    other = Post(post.bench, broker_url)
    tasks = [post.bench.submit(sent) for _ in range(12)]
    post.worker(20)
    taken = []
    while post.bench.hints():
        post.step()
        other.step()
        taken += post.pop()
    other.close()
    assert sorted(taken) == sorted(tasks)


def test_a_queued_task_that_lost_its_hint_is_hinted_again_once_its_queue_is_empty(post: Post) -> None:
    old, young = post.bench.submit(sent), post.bench.submit(sent)
    post.step()
    post.bench.rows("delete from task_hints")
    post.bench.rows("update tasks set available_at = available_at - interval '16 seconds' where id = :t", t=old)
    post.worker()
    post.redis.lpush("default", "something waits")
    post.dispatcher._net_at = 0.0
    post.step()
    assert post.bench.hints() == []
    post.redis.delete("default")
    post.dispatcher._net_at = 0.0
    post.step()
    assert post.pop() == [old]
    assert post.bench.state(young) == "queued"


def test_a_task_that_lost_its_hint_is_found_also_where_the_broker_is_never_empty(post: Post) -> None:
    lost, waits = post.bench.submit(sent, priority=100), post.bench.submit(sent)
    post.step()
    post.bench.rows("delete from task_hints")
    age = "update tasks set available_at = available_at - make_interval(secs => :s) where id = :t"
    post.bench.rows(age, s=BUSY_NET_AGE + 1, t=lost)
    post.bench.rows(age, s=BUSY_NET_AGE - 30, t=waits)
    post.worker()
    post.redis.lpush("default", "something always waits")
    post.dispatcher._net_at = post.dispatcher._busy_net_at = 0.0
    post.step()
    assert post.redis.lrange("default", -1, -1) == [b"something always waits"]
    assert post.redis.llen("default") == 2
    post.redis.rpop("default")
    assert post.pop() == [lost]
    assert post.bench.hints() == [], "the other may still lie in the broker"


def test_a_flushed_broker_is_noticed_and_every_queued_task_hinted_again_exactly_once(post: Post) -> None:
    tasks = [post.bench.submit(sent) for _ in range(5)]
    running, done = post.bench.submit(sent), post.bench.submit(sent)
    post.bench.run(done)
    assert post.bench.state(tasks[0]) == "succeeded"
    tasks = [post.bench.submit(sent) for _ in range(5)]
    claimed = post.bench.executor._hot.claim(tasks.pop())
    assert claimed is not None
    post.bench.rows("delete from task_hints where task_id = :t", t=claimed.lease.task_id)
    post.worker(2)
    post.step()
    assert post.redis.llen("default") == 2
    assert len(post.bench.hints()) == 2
    epoch = post.redis.get(EPOCH_KEY)
    post.redis.flushdb()
    post.bench.rows("delete from workers")
    post.step()
    assert sorted(post.bench.hints()) == sorted(tasks)
    assert post.redis.get(EPOCH_KEY) not in (None, epoch)
    for _ in range(3):
        post.step()
    assert sorted(post.bench.hints()) == sorted(tasks), "noticed once"
    assert running not in post.bench.hints()


def test_only_a_broker_that_replaces_another_is_a_warning(post: Post) -> None:
    with structlog.testing.capture_logs() as said:
        post.step()
        post.redis.flushdb()
        post.step()
    changes = [(line["log_level"], line["first"]) for line in said if line["event"] == "broker_changed"]
    assert changes == [("info", True), ("warning", False)]


def test_a_broker_that_is_frozen_or_gone_is_reported_in_time_and_the_hints_stay(make_bench: Make) -> None:
    with OwnServers(postgres=False) as servers:
        post = Post(make_bench(sent), servers.broker_url)
        post.worker()
        post.step()
        tasks = [post.bench.submit(sent) for _ in range(2)]
        servers.freeze_valkey()
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=r"^the broker cannot be reached: check TENURE_BROKER_URL"):
            post.step()
        assert time.monotonic() - began < 6
        assert post.bench.hints() == tasks
        servers.thaw_valkey()
        servers.kill_valkey()
        with pytest.raises(BrokerUnavailable) as refused:
            post.step()
        assert servers.broker_url not in str(refused.value)
        assert post.bench.hints() == tasks
        servers.start_valkey()
        post.step()
        assert set(post.pop()) == set(tasks)
        assert post.redis.get(EPOCH_KEY) is not None
        post.close()


def test_a_publication_that_fails_leaves_its_hints_where_they_were(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    task = post.bench.submit(sent)
    post.worker()
    post.step()
    post.pop()
    following = post.bench.submit(sent)

    def away(batch: object) -> None:
        raise BrokerUnavailable("away")

    monkeypatch.setattr(post.broker, "publish", away)
    with pytest.raises(BrokerUnavailable):
        post.step()
    assert post.bench.hints() == [following]
    assert task != following


def test_a_broker_without_an_epoch_is_never_taken_for_a_new_one(post: Post) -> None:
    task = post.bench.submit(sent)
    app = make_app(post.settings, ["default"])
    dispatcher = Dispatcher(post.settings, CeleryBroker(app))
    post.bench.rows("delete from task_hints")
    for _ in range(3):
        dispatcher.run_once()
    assert post.bench.hints() == [], "no broker was lost"
    post.worker()
    post.bench.rows("insert into task_hints (task_id, kind, queue, priority) values (:t, 'sent', 'default', 0)", t=task)
    dispatcher._served_at = 0.0
    dispatcher.run_once()
    dispatcher.close()
    assert post.pop() == [task]


# What Celery writes and we do not, and what we say otherwise. All of it is optional to a worker.
LEFT_OUT = {"replaced_task_nesting", "stamped_headers", "stamps"}
OTHERWISE = {
    "origin": "tenure",  # not a host name and pid of the dispatcher
    "ignore_result": True,  # the row is the result
    "reply_to": "",  # nobody waits for a reply
}


def test_our_envelope_is_what_send_task_writes(post: Post) -> None:
    task = str(uuid4())
    app = make_app(post.settings, ["default", "bulk"])
    app.send_task("bulky", task_id=task, queue="bulk", headers={"x-tenure": "hint"})
    theirs: dict[str, Any] = json.loads(post.redis.rpop("bulk"))  # type: ignore[arg-type]
    ours: dict[str, Any] = json.loads(envelope(Hint(task, "bulky", "bulk")))
    app.close()
    assert json.loads(b64decode(ours["body"])) == json.loads(b64decode(theirs["body"])) != []
    assert set(ours) == set(theirs)
    assert all(ours[part] == theirs[part] for part in ("content-type", "content-encoding"))
    for part in ("headers", "properties"):
        assert set(theirs[part]) - set(ours[part]) == (LEFT_OUT if part == "headers" else set())
        assert set(ours[part]) - set(theirs[part]) == set()
        differing = {name: value for name, value in ours[part].items() if theirs[part][name] != value}
        differing.pop("delivery_tag", None)
        assert differing == {name: OTHERWISE[name] for name in OTHERWISE if name in ours[part]}
    UUID(ours["properties"]["delivery_tag"])


def test_an_idle_workers_services_make_at_most_five_statements_a_second(
    post: Post, database: Database, tmp_path: Any
) -> None:
    with Proxy(database.url) as proxy:
        settings = Settings(**{**post.settings.model_dump(), "database_url": proxy.url, "home": tmp_path})
        boot = Boot(uuid4(), "node", "worker", 1, "1", 2, ["default", "bulk", "tiny"], ["sent"])
        keeper = Keeper(settings, StopChannel(2), boot, Registry([sent]), Metrics(), Health(tmp_path, "worker"))
        dispatcher, reaper = Dispatcher(settings, post.broker), Reaper(settings)
        seconds = 10
        for second in range(-1, seconds):
            if second == 0:
                proxy.statements.clear()
            if second % 5 == 0:
                keeper._renew_at = dispatcher._net_at = 0.0
            dispatcher._served_at = 0.0
            assert keeper.run_once() >= 1
            assert reaper.run_once() >= 1
            assert dispatcher.run_once() >= 0.1
        made = list(proxy.statements)
        for service in (keeper, reaper, dispatcher):
            service.close()
    assert len(made) <= 5 * seconds, made


def test_a_spec_without_a_body_is_enough_to_submit(post: Post) -> None:
    task = post.bench.submit(KindSpec("sent"))  # type: ignore[arg-type]
    post.worker()
    post.step()
    assert post.pop() == [task]


def test_it_says_now_and_then_that_it_reaches_the_broker(post: Post) -> None:
    post.step()
    age = "update broker_state set updated_at = clock_timestamp() - interval '1 hour' returning 1"
    fresh = "select updated_at > clock_timestamp() - interval '1 minute' from broker_state"
    post.bench.rows(age)
    post.step()
    assert not post.bench.one(fresh), "not at every round"
    post.dispatcher._reached_at = 0.0
    post.step()
    assert post.bench.one(fresh)


def test_it_leaves_hints_without_room_where_they_are(post: Post) -> None:
    post.worker()
    post.bench.rows("insert into limits (what, name, at_most) values ('kind', 'sent', 1) returning 1")
    running = post.bench.submit(sent)
    claimed = post.bench.executor._hot.claim(running)
    assert claimed is not None
    post.bench.rows("delete from task_hints returning 1")
    waiting = [post.bench.submit(sent) for _ in range(2)]
    post.step()
    assert post.pop() == []
    assert post.bench.hints() == waiting
    post.bench.rows("update task_leases set expires = clock_timestamp() returning 1")
    post.step()
    assert post.pop() == waiting
