"""Whatever happens to a task and its activity, in whatever order: one terminal status, the first, and it stays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure import activities
from tenure.model.errors import Refused, TooLate
from tenure.model.initiators import SYSTEM
from tenure.model.items import Item
from tenure.model.records import Claimed
from tenure.store import items
from tenure.store.hot import HotSession
from tenure.store.transitions import activities as ending
from tenure.store.transitions import due, recover
from tests.support import tasks
from tests.support.databases import Database

MEANS = {
    "succeeded": {"complete", "complete_with_warning"},
    "partially_succeeded": {"complete_with_warning", "complete_with_error"},
    "failed": {"failed"},
    "cancelled": {"cancelled"},
}
Seen = tuple[str, Any, str]


@dataclass
class World:
    """One task, two workers, and each worker's last claim of it: it may be long superseded."""

    database: Database
    workers: dict[str, HotSession]
    task: UUID
    held: dict[str, Claimed] = field(default_factory=dict)

    def seen(self) -> Seen:
        row = tasks.value(
            self.database,
            "select array[a.status, a.ended_at::text, k.state] from tasks k join activities a on a.id = k.activity_id where k.id = :id",
            id=self.task,
        )
        return tuple(row)


def _claim(world: World, who: str) -> None:
    got = world.workers[who].claim(world.task)
    if got is not None:
        world.held[who] = got


def _ends(how: tasks.Ended) -> Callable[[World, str], None]:
    def end(world: World, who: str) -> None:
        if who in world.held:
            tasks.ends(world.workers[who], world.held[who].lease, how)

    return end


def _decide(world: World, who: str) -> None:
    if who in world.held:
        world.workers[who].decide(world.held[who], summary=None, result=None)


def _item(world: World, who: str) -> None:
    """What a page would leave; that a superseded holder's is refused is the fence's own test."""
    with world.database.engine.begin() as connection:
        items.insert(connection, items.Under(world.task, world.task), [Item("updated"), Item("updated", error="Odd")])


def _again(world: World, who: str) -> None:
    if who in world.held:
        world.workers[who].retry_later(world.held[who].lease, tasks.AGAIN)
        with world.database.engine.begin() as connection:
            due.make_due(connection, world.task)
            due.promote(connection)


def _release(world: World, who: str) -> None:
    if who in world.held:
        world.workers[who].release(world.held[who].lease)


def _cancel(world: World, who: str) -> None:
    try:
        tasks.cancel(world.database, world.task)
    except TooLate:
        pass


def _recover(world: World, who: str) -> None:
    tasks.run_sql(world.database, "update task_leases set expires = clock_timestamp() - interval '1 s'")
    with world.database.engine.begin() as connection:
        recover.recover_expired(connection, crash_bound=3)
        due.cancel_asked(connection)


ACTS: dict[str, Callable[[World, str], None]] = {
    "claim": _claim,
    "succeed": _ends(tasks.SUCCEEDED),
    "fail": _ends(tasks.FAILED),
    "acknowledge": _ends(tasks.CANCELLED),
    "decide": _decide,
    "item": _item,
    "retry": _again,
    "release": _release,
    "cancel": _cancel,
    "recover": _recover,
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.sampled_from("ab")), min_size=1, max_size=14)
SETTINGS = settings(
    max_examples=tasks.scale(800, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _check(before: Seen, after: Seen) -> None:
    if before[0] != "in_progress":
        assert after == before, "what has ended stays as it ended"
    elif after[0] != "in_progress":
        assert after[0] in MEANS[after[2]]
    assert (after[1] is None) == (after[0] == "in_progress") == (after[2] not in MEANS)


@SETTINGS
@given(steps=STEPS)
def test_a_task_and_its_activity_end_once_and_together(
    database: Database, session: HotSession, other: HotSession, steps: list[tuple[str, str]]
) -> None:
    world = World(database, {"a": session, "b": other}, tasks.submit(database))
    tasks.run_sql(database, "delete from task_leases")
    seen = world.seen()
    for act, who in steps:
        ACTS[act](world, who)
        _check(seen, now := world.seen())
        seen = now
    for who in "ab" * 3:  # to the end, if it has not come yet
        for act in ("recover", "claim", "decide"):
            ACTS[act](world, who)
    final = world.seen()
    _check(seen, final)
    assert final[0] != "in_progress"
    ends = "select count(*) from task_events where task_id = :id and state in ('succeeded','partially_succeeded','failed','cancelled')"
    assert tasks.value(database, ends, id=world.task) == 1


BY_HAND: dict[str, Callable[[Any, UUID], activities.Closed]] = {
    "end": activities.end,
    "fail": lambda connection, one: activities.fail(connection, one, "it broke"),
    "fail by an exception": lambda connection, one: activities.fail(connection, one, ValueError("a secret")),
    "cancel": lambda connection, one: activities.cancel(connection, one, "not wanted any more"),
}


@SETTINGS
@given(steps=st.lists(st.sampled_from([*BY_HAND, "item", "warn", "late"]), min_size=1, max_size=8))
def test_an_activity_without_a_task_ends_once(database: Database, session: HotSession, steps: list[str]) -> None:
    with database.engine.begin() as connection:
        one = activities.start(connection, initiator=SYSTEM, target=activities.Target("test"))
    first: str | None = None
    for step in steps:
        with database.engine.begin() as connection:
            if step in BY_HAND:
                closed = BY_HAND[step](connection, one)
                assert closed.first == (first is None)
                first = first or closed.status
                assert closed.status == first
            elif step == "item":
                activities.record(connection, one, [Item("updated"), Item("updated", error="Odd")])
            elif step == "warn":
                try:
                    activities.warn(connection, one, "slow")
                    assert first is None
                except Refused:
                    assert first is not None
        if step == "late":
            tasks.run_sql(
                database,
                "update activities set expires_at = clock_timestamp() where id = :id and expires_at is not null",
                id=one,
            )
            with database.engine.begin() as connection:
                ended = ending.expire(connection)
            assert ended in ([], [(one, first is None)])
            first = first or "failed"
        assert tasks.value(database, "select status from activities where id = :id", id=one) == (first or "in_progress")
