"""What `why` says of a task that waits for its group's turn."""

from typing import Any

import pytest

from tenure.why_rules import waits

TURN = {
    "execution_id": "e1", "schedule_name": "nightly", "execution_state": "running", "group_index": 0, "groups": 3,
    "step_index": 2, "before": 2, "behind": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        (
            {},
            "it is of group 3 of 3 of execution e1 of schedule nightly; 2 tasks of the groups before it have not ended",
        ),
        ({"before": 0}, "the groups before it have ended: it is queued within half a minute"),
        ({"execution_state": "waiting", "behind": "e0"}, "which has not started: it starts after execution e0"),
        ({"execution_state": "waiting"}, "which has not started: it starts within a second"),
        ({"execution_state": "cancelling"}, "which is being cancelled: it ends within a second"),
    ],
)
def test_a_waiting_task_names_its_execution_and_what_is_before_it(differs: dict[str, Any], said: str) -> None:
    assert said in waits({**TURN, **differs})


def test_a_waiting_task_without_an_execution_says_so() -> None:
    assert waits(None) == "the turn of its step group has not come"
