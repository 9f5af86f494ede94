"""The ladder, stepped: it rings deadlines and ends whoever does not stop, with no database at all."""

import os
import threading
import time
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from tenure.model.stops import Cause
from tenure.runtime import times
from tenure.runtime.channel import StopChannel
from tenure.runtime.ladder import Ladder
from tenure.runtime.seat import Word
from tests.support.forks import forked
from tests.support.until import until


@dataclass
class Main:
    """The main process's side. `endable`: whether the pool can end one of its own."""

    endable: bool = True
    stopped_at: float | None = None
    ended: list[int] = field(default_factory=list)
    given_up: list[tuple[int, int, int]] = field(default_factory=list)
    left: int = 0

    def __post_init__(self) -> None:
        self.channel = StopChannel(2)
        self.ladder = Ladder(
            self.channel,
            end_child=self.end,
            give_up=lambda *one: self.given_up.append(one),
            stopped_at=lambda: self.stopped_at,
            leave=self.leave,
        )

    def end(self, pid: int) -> bool:
        self.ended.append(pid)
        return self.endable

    def leave(self) -> None:
        self.left += 1


def test_a_deadline_is_rung_when_the_claim_said_it_comes_and_not_before() -> None:
    main = Main()
    seat = main.channel.seat(0)
    seat.hold(7, seconds_left=0.2)
    main.ladder.run_once()
    assert seat.stop_cause() == 0
    until(lambda: main.ladder.run_once() and seat.stop_cause() == Cause.DEADLINE, 5)


def test_the_deadline_of_the_task_before_does_not_count_for_the_next() -> None:
    main = Main()
    seat = main.channel.seat(0)
    seat.hold(7, seconds_left=0.0)
    seat.hold(8)
    main.ladder.run_once()
    assert seat.stop_cause() == 0


def test_a_cancel_that_was_asked_first_is_not_hidden_by_the_deadline() -> None:
    main = Main()
    seat = main.channel.seat(0)
    seat.hold(7, seconds_left=0.0)
    main.channel.ask(0, 7, Cause.CANCEL)
    main.ladder.run_once()
    assert seat.stop_cause() == Cause.CANCEL


def test_who_stays_past_its_bound_is_ended_once_and_given_up() -> None:
    main = Main()
    seat = main.channel.seat(0)
    seat.hold(7, stop_within=0.1, task_id=uuid4())
    main.channel.ask(0, 7, Cause.CANCEL)
    began = time.monotonic()
    until(lambda: main.ladder.run_once() and main.ended, 5)
    assert time.monotonic() - began >= 0.1 + times.MAIN_AFTER_CHILD
    main.ladder.run_once()
    assert main.ended == [os.getpid()]
    assert main.given_up == [(0, 7, os.getpid())]


def test_a_thread_that_nothing_ends_is_given_up_as_well() -> None:
    main = Main(endable=False)
    seat = main.channel.seat(0, threading.get_native_id())
    seat.hold(7, stop_within=0.0)
    main.channel.ask(0, 7, Cause.DEADLINE)
    until(lambda: main.ladder.run_once() and main.given_up, 5)
    assert main.given_up == [(0, 7, threading.get_native_id())]


def test_a_child_that_left_by_itself_is_given_up_at_once_and_not_ended() -> None:
    main = Main()
    with forked(lambda line: line.recv()) as child:
        seat = main.channel.seat(0, child.pid)
        seat.hold(7, stop_within=60.0)
        main.channel.ask(0, 7, Cause.DEADLINE)
        main.ladder.run_once()
        assert main.given_up == []
        child.kill()
    main.ladder.run_once()
    assert (main.given_up, main.ended) == ([(0, 7, child.pid)], [])


def test_a_later_process_with_the_pid_of_a_child_that_left_is_not_ended() -> None:
    main = Main()
    seat = main.channel.seat(0)
    seat.hold(7, stop_within=0.0)
    main.channel._slots[0].words[Word.STARTED] -= 1  # the holder was another, and its pid is ours now
    main.channel.ask(0, 7, Cause.DEADLINE)
    main.ladder.run_once()
    assert (main.given_up, main.ended) == ([(0, 7, os.getpid())], [])


@pytest.mark.parametrize(
    "drain, bound", [(0.0, times.T_MAIN_SHUTDOWN), (5.0, times.T_MAIN_SHUTDOWN + 5.0), (60.0, times.T_SETTLED)]
)
def test_a_shutdown_leaves_a_drain_as_long_as_its_end_can_still_be_written(
    drain: float, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    main = Main(stopped_at=now)
    main.channel.seat(0).hold(7, drain=drain)
    main.ladder.run_once()
    assert main.channel.asked(0, 7) is Cause.SHUTDOWN
    now += bound - 0.1
    main.ladder.run_once()
    assert main.ended == []
    now += 0.2
    main.ladder.run_once()
    assert main.ended == [os.getpid()]
    assert main.left == 0


def test_when_the_last_time_has_passed_the_process_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    main = Main(stopped_at=now - times.T_FINAL + 0.1)
    main.ladder.run_once()
    assert main.left == 0
    now += 0.2
    main.ladder.run_once()
    assert main.left == 1


def test_the_task_in_hand_can_be_named_by_the_main_process() -> None:
    main = Main()
    task_id = uuid4()
    main.channel.seat(1).hold(7, task_id=task_id)
    assert main.channel.task(1) == task_id
