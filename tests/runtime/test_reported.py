"""What no task does leaves an activity of its own where there is something to tell, and none where there is not."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt
from tenure.services.housekeeping import Housekeeping, Step
from tenure.services.reaper import Reaper
from tests.support.slot import Bench

Make = Callable[..., Bench]
_TOLD = """select a.target_type, a.target_name, a.status, a.actor, a.initiator_type, s.change, s.objects
    from activities a left join activity_statistics s on s.activity_id = a.id where a.task_id is null order by a.id"""


@kind("dying", on_lost="resume")
def dying(attempt: Attempt, params: object) -> None:
    pass


def told(bench: Bench) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in bench.rows(_TOLD)]


def test_housekeeping_tells_what_it_did_in_the_transaction_that_did_it(make_bench: Make) -> None:
    def does(connection: Connection) -> int:
        return 3

    def quiet(connection: Connection) -> int:
        return 0

    def fails(connection: Connection) -> int:
        connection.exec_driver_sql("select 1 / 0")
        return 1

    bench = make_bench(dying)
    made = Housekeeping(bench.settings, [Step("swept", does), Step("idle", quiet), Step("broken", fails)])
    try:
        made.run_once()
    finally:
        made.close()
    assert told(bench) == [("housekeeping", "swept", "complete", "housekeeping", "system", "kept_in_order", 3)]


def test_a_quiet_round_of_the_real_steps_leaves_none(make_bench: Make) -> None:
    bench = make_bench(dying)
    made = Housekeeping(bench.settings)
    try:
        made.run_once()
        made.run_once()
    finally:
        made.close()
    assert told(bench) == []


def test_recovery_names_the_tasks_it_settled(make_bench: Make) -> None:
    bench = make_bench(dying)
    tasks = [bench.submit(dying) for _ in range(2)]
    for task in tasks:
        assert bench.executor._hot.claim(task) is not None
        bench.expire(task)
    reaper = Reaper(bench.settings)
    reaper.run_once()
    reaper.run_once()
    assert told(bench) == [("recovery", None, "complete", "reaper", "system", "queued", 2)]
    named = bench.rows("select object_type, object_id, change from activity_items")
    assert {tuple(row) for row in named} == {("task", str(task), "queued") for task in tasks}
