"""Executions against a model: any plan, any fate of each member, any process dying between a commit and its advance."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tenure import schedules
from tenure.model.records import Lease
from tenure.runtime.advancing import Advancer
from tenure.services.net import SafetyNet
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store.hot import HotSession
from tenure.store.transitions.force import force
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database

At = tuple[int, int]  # group, step of it
GOOD = {"succeeds": "succeeded", "warns": "partially_succeeded"}
BAD = {
    "fails": "failed",
    "has errors": "partially_succeeded",
    "is cancelled before it runs": "cancelled",
    "is cancelled": "cancelled",
    "loses its worker": "failed",
    "starts too late": "failed",
    "runs too long": "failed",
    "is forced": "failed",
}
STATES = GOOD | BAD | {"never runs": "cancelled"}
WARNED = tasks.Ended("partially_succeed", "partially_succeeded", activity="complete_with_warning")
ENDS = {"succeeds": tasks.SUCCEEDED, "warns": WARNED, "fails": tasks.FAILED, "has errors": tasks.PARTIALLY}
ENDS |= {"is cancelled": tasks.CANCELLED}


@dataclass
class Plan:
    """Drawn at random. `groups`: what each step says of a failure; `schedule`: what counts where it says `inherit`."""

    schedule: str
    groups: list[list[str]]
    fates: dict[At, str]

    @classmethod
    def drawn(cls, random: Random) -> "Plan":
        says = ["inherit", "stop", "continue"]
        groups = [random.choices(says, k=random.randint(1, 3)) for _ in range(random.randint(1, 4))]
        at = [(group, step) for group, steps in enumerate(groups) for step in range(len(steps))]
        return cls(
            random.choice(says[1:]), groups, {one: random.choice(["succeeds"] * 8 + list(STATES)[:-1]) for one in at}
        )

    def expected(self) -> tuple[str, dict[At, str]]:
        """The execution's state and what becomes of each member, by the rule and nothing else."""
        fates, failed = dict(self.fates), False
        for group, steps in enumerate(self.groups):
            bad = any(self.fates[group, step] in BAD for step in range(len(steps)))
            if bad and "stop" in [self.schedule if says == "inherit" else says for says in steps]:
                return "failed", {at: "never runs" if at[0] > group else fate for at, fate in fates.items()}
            failed = failed or bad
        return "partially_succeeded" if failed else "succeeded", fates


@dataclass
class World:
    database: Database
    session: HotSession
    random: Random
    left: dict[UUID, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = Settings(database_url=self.database.url)
        self.reaper, self.net = Reaper(found), SafetyNet(found)
        self.advancer = Advancer(self.database.url, application="test advance")

    def close(self) -> None:
        for one in (self.reaper, self.net, self.advancer):
            one.close()

    def sql(self, statement: str, **values: Any) -> None:
        tasks.run_sql(self.database, statement, **values)

    def play(self, plan: Plan, name: str) -> UUID:
        steps = [[made.step(on_failure=says) for says in group] for group in plan.groups]  # type: ignore[arg-type]
        made.add(self.database, name, *steps, on_failure=plan.schedule, manual=True)
        with self.database.engine.begin() as connection:
            execution_id = schedules.run_now(connection, name, initiator=tasks.ADA)
        self.left = {task_id: plan.fates[at] for at, task_id in self.ids(execution_id).items()}
        while self.state(execution_id) == "running":
            queued = [one for one in self.queued(execution_id) if one in self.left]
            if queued:
                one = self.random.choice(queued)
                self.meet(one, self.left.pop(one))
                self.go_on(execution_id)
            else:
                self.mend(execution_id)
        return execution_id

    def ids(self, execution_id: UUID) -> dict[At, UUID]:
        ((plan,),) = made.rows(self.database, "select plan from executions where id = :id", id=execution_id)
        return {(g, s): UUID(step["task_id"]) for g, group in enumerate(plan) for s, step in enumerate(group)}

    def state(self, execution_id: UUID) -> str:
        return str(tasks.value(self.database, "select state from executions where id = :id", id=execution_id))

    def queued(self, execution_id: UUID) -> list[UUID]:
        statement = "select id, step_index from tasks where execution_id = :id and state = 'queued' order by id"
        found = made.rows(self.database, statement, id=execution_id)
        assert len({row[1] for row in found}) <= 1, "one group at a time"
        return [row[0] for row in found]

    def meet(self, task_id: UUID, fate: str) -> None:
        """What happens to a member whose turn has come."""
        if fate == "is cancelled before it runs":
            tasks.cancel(self.database, task_id)
        elif fate == "starts too late":
            self.sql("update tasks set deadline = clock_timestamp() where id = :id", id=task_id)
            self.reaper.run_once()
        else:
            self._end(tasks.claimed(self.session, task_id).lease, fate)

    def _end(self, lease: Lease, fate: str) -> None:
        if fate in ENDS:
            assert tasks.ends(self.session, lease, ENDS[fate])
        elif fate == "is forced":
            with self.database.engine.begin() as connection:
                assert force(connection, lease.holder.worker, lease.holder.pid, lease.token, tasks.FAILED)
        else:
            if fate == "runs too long":
                self.sql("update task_leases set deadline = clock_timestamp() where task_id = :id", id=lease.task_id)
            tasks.expire_lease(self.database, lease.task_id)
            self.reaper.run_once()

    def go_on(self, execution_id: UUID) -> None:
        """Whoever ended it moves the execution on, or dies before, or what it left for others is lost as well."""
        if self.random.random() < 0.5:
            self.advancer.advance([execution_id])
        elif self.random.random() < 0.3:
            self.sql("delete from execution_due")

    def mend(self, execution_id: UUID) -> None:
        """Nothing is under way: either sweep finds it, the second also if nobody has left word."""
        self.sql("update execution_due set created_at = created_at - interval '1 minute'")
        self.sql("update executions set created_at = created_at - interval '1 minute' where id = :id", id=execution_id)
        self.reaper.run_once()
        before = self.state(execution_id), self.queued(execution_id)
        self.net.run_once()
        after = self.state(execution_id), self.queued(execution_id)
        assert after[1] or after[0] != "running", f"it stands still for ever: {before}"


@pytest.fixture
def world(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)
    with tasks.worker(database, kinds=made.kinds().specs) as session:
        made_world = World(database, session, Random(1815))
        yield made_world
        made_world.close()


def test_every_execution_settles_as_its_plan_says_whoever_dies(world: World) -> None:
    for number in range(tasks.scale(300, 12)):
        plan = Plan.drawn(world.random)
        state, fates = plan.expected()
        execution_id = world.play(plan, f"{number}")
        assert world.state(execution_id) == state, plan
        ids = world.ids(execution_id)
        assert {at: tasks.state(world.database, ids[at]) for at in ids} == {at: STATES[fates[at]] for at in ids}, plan
    assert tasks.value(world.database, "select count(*) from activities where status = 'in_progress'") == 0
    assert tasks.value(world.database, "select count(*) from task_leases") == 0
