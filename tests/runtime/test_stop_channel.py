"""The main process tells one child, about one task, and nobody else is disturbed."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from tenure.model.stops import Cancelled, Cause, DeadlineExceeded, LeaseLost, ShuttingDown, Stop, stop_for
from tenure.runtime.channel import StopChannel
from tenure.runtime.seat import WORDS_PER_SLOT, Seat, Slot, Word, boottime_ns
from tests.support.forks import forked
from tests.support.promptness import PROMPT_S, best_of

A_MINUTE_NS = 60_000_000_000
LARGEST_TOKEN = 2**58 - 1


def obedient(channel: StopChannel, slot: int, token: int) -> Callable[[Connection], None]:
    """A child's body: holds one task, waits to be told, says why and when."""

    def body(line: Connection) -> None:
        seat = channel.seat(slot)
        seat.hold(token)
        line.send("holding")
        while not seat.stop_cause():
            seat.wait(30)
        line.send((seat.stop_cause(), time.monotonic()))
        line.recv()

    return body


def holder(channel: StopChannel, slot: int, token: int) -> Callable[[Connection], None]:
    """A child's body: holds one task and does nothing else."""

    def body(line: Connection) -> None:
        channel.seat(slot).hold(token)
        line.send("holding")
        line.recv()

    return body


def test_a_forked_child_notices_within_50_ms_which_stop_and_why() -> None:
    def lateness() -> float:
        channel = StopChannel(2)
        with forked(obedient(channel, 1, LARGEST_TOKEN)) as child:
            assert child.hear() == "holding"
            assert channel.held(1) == (LARGEST_TOKEN, child.pid)
            asked = time.monotonic()
            assert channel.ask(1, LARGEST_TOKEN, Cause.DEADLINE)
            cause, noticed = child.hear()
            assert cause == Cause.DEADLINE
            return noticed - asked

    assert best_of(lateness) < PROMPT_S


def test_asking_all_reaches_every_child_that_holds_a_task_also_one_forked_later() -> None:
    channel = StopChannel(4)
    with forked(obedient(channel, 0, 7)) as first:
        assert first.hear() == "holding"
        assert list(channel.slots()) == [(0, 7, first.pid)]
        with forked(obedient(channel, 3, 8)) as later:
            assert later.hear() == "holding"
            assert list(channel.slots()) == [(0, 7, first.pid), (3, 8, later.pid)]
            assert channel.ask_all(Cause.SHUTDOWN) == 2
            assert [child.hear()[0] for child in (first, later)] == [Cause.SHUTDOWN, Cause.SHUTDOWN]


def test_asking_all_in_a_signal_handler_reaches_the_child() -> None:
    channel = StopChannel(1)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: channel.ask_all(Cause.SHUTDOWN))
    try:
        with forked(obedient(channel, 0, 7)) as child:
            assert child.hear() == "holding"
            signal.raise_signal(signal.SIGUSR1)
            assert child.hear()[0] == Cause.SHUTDOWN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_stop_for_one_child_leaves_its_neighbour_alone() -> None:
    channel = StopChannel(2)
    mine, neighbour = channel.seat(0), channel.seat(1)
    mine.hold(7)
    neighbour.hold(8)
    channel.ask(0, 7, Cause.CANCEL)
    assert mine.wait(0)
    assert (mine.stop_cause(), neighbour.stop_cause()) == (Cause.CANCEL, 0)
    assert not neighbour.wait(0)


def test_another_tokens_stop_is_not_asked_and_where_it_was_it_is_ignored() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    assert not channel.ask(0, 7, Cause.CANCEL), "nothing is held"
    seat.hold(7)
    assert not channel.ask(0, 8, Cause.CANCEL)
    assert (seat.stop_cause(), seat.wait(0)) == (0, False)
    assert channel.ask(0, 7, Cause.CANCEL)
    seat.release()
    assert seat.stop_cause() == 0
    seat.hold(8)
    assert seat.stop_cause() == 0
    seat.check()


def test_a_weaker_cause_does_not_hide_a_stronger_one() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    seat.hold(7)
    told = []
    for cause in (Cause.SHUTDOWN, Cause.DEADLINE, Cause.CANCEL, Cause.SHUTDOWN, Cause.LEASE_LOST, Cause.CANCEL):
        channel.ask(0, 7, cause)
        told.append(seat.stop_cause())
    assert told == [3, 2, 1, 1, 4, 4]
    seat.hold(8)
    channel.ask(0, 8, Cause.SHUTDOWN)
    assert seat.stop_cause() == Cause.SHUTDOWN, "strength counts within one attempt only"


def test_a_thousand_asks_and_many_more_do_not_block_on_a_full_pipe() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    seat.hold(7)
    for _ in range(1_000):
        assert channel.ask(0, 7, Cause.CANCEL)
    for _ in range(70_000):
        channel._slots[0].pipe.ring()
    assert channel.ask(0, 7, Cause.CANCEL)
    assert seat.wait(0)
    assert not seat.wait(0), "one wait takes out all of it"
    assert seat.stop_cause() == Cause.CANCEL


def test_a_wait_takes_its_time_when_nobody_asks() -> None:
    seat = StopChannel(1).seat(0)
    started = time.monotonic()
    assert not seat.wait(0.02)
    assert time.monotonic() - started >= 0.02


def test_a_stop_asked_between_two_waits_is_not_missed() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    seat.hold(7)
    assert not seat.wait(0)
    channel.ask(0, 7, Cause.CANCEL)
    assert seat.wait(30)


def test_trust_ends_where_the_claim_or_the_last_renewal_said() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    now = boottime_ns()
    seat.hold(7)
    assert seat.trusted(), "not anchored yet"
    assert channel.trust(0, 7, now - 1)
    assert not seat.trusted()
    seat.hold(8, now - 1)
    assert not seat.trusted()
    assert channel.trust(0, 8, now + A_MINUTE_NS)
    assert seat.trusted()
    channel.trust(0, 8, now - 1)
    assert seat.trusted(), "trust only grows"
    seat.release()
    assert seat.trusted(), "nothing in hand, nothing to lose"


def test_the_main_process_extends_the_trust_of_a_forked_child() -> None:
    channel = StopChannel(1)

    def body(line: Connection) -> None:
        seat = channel.seat(0)
        seat.hold(7, boottime_ns() - 1)
        line.send(seat.trusted())
        line.recv()
        line.send(seat.trusted())

    with forked(body) as child:
        assert child.hear() is False
        assert channel.trust(0, 7, boottime_ns() + A_MINUTE_NS)
        child.say("look again")
        assert child.hear() is True


def test_a_renewal_of_another_token_extends_nothing() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    now = boottime_ns()
    seat.hold(7, now + A_MINUTE_NS)
    assert not channel.trust(0, 6, now + A_MINUTE_NS)
    assert channel.trust(0, 7, now + A_MINUTE_NS)
    seat.hold(8, now - 1)
    assert not seat.trusted(), "the renewal was for token 7"
    assert not channel.trust(0, 7, now + A_MINUTE_NS)
    assert not seat.trusted()


@pytest.mark.parametrize("stored_first", [Word.TRUST, Word.TRUST_SEAL])
@pytest.mark.parametrize("late_token", [7, 8])
def test_half_a_renewal_never_extends_trust_in_whichever_order_it_arrives(stored_first: Word, late_token: int) -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    words = channel._slots[0].words
    now = boottime_ns()
    seat.hold(7, now - 2)
    channel.trust(0, 7, now - 1)
    seat.hold(8, now - 1)
    until = now + A_MINUTE_NS
    words[stored_first] = until if stored_first is Word.TRUST else until ^ late_token
    assert not seat.trusted()


def test_a_half_stored_renewal_leaves_the_trust_there_was() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    now = boottime_ns()
    seat.hold(7, now - 1)
    channel.trust(0, 7, now + A_MINUTE_NS)
    assert seat.trusted()
    channel._slots[0].words[Word.TRUST] = now + 2 * A_MINUTE_NS
    assert seat.trusted()


def test_a_check_raises_what_there_is_and_lost_trust_first() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    seat.hold(7, boottime_ns() - 1)
    channel.ask(0, 7, Cause.CANCEL)
    with pytest.raises(LeaseLost, match="not renewed in time"):
        seat.check()
    channel.trust(0, 7, boottime_ns() + A_MINUTE_NS)
    seat.check_trust()
    with pytest.raises(Cancelled):
        seat.check()


def test_a_slot_is_used_again_after_its_child_was_killed() -> None:
    channel = StopChannel(1)
    with forked(holder(channel, 0, 7)) as dead:
        dead.hear()
        channel.ask(0, 7, Cause.CANCEL)
        dead.kill()
    assert channel.held(0) == (7, dead.pid), "what it held is there for whoever settles it"
    with forked(obedient(channel, 0, 8)) as successor:
        assert successor.hear() == "holding"
        assert channel.held(0) == (8, successor.pid)
        assert not channel.ask(0, 7, Cause.CANCEL)
        assert channel.ask(0, 8, Cause.SHUTDOWN)
        assert successor.hear()[0] == Cause.SHUTDOWN


def test_taking_a_seat_clears_what_the_predecessor_held() -> None:
    channel = StopChannel(1)
    with forked(holder(channel, 0, 7)) as dead:
        dead.hear()
        dead.kill()
    seat = channel.seat(0)
    assert (channel.held(0), seat.stop_cause()) == ((0, os.getpid()), 0)


def test_a_settled_dead_token_is_forgotten_without_touching_a_successor() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    seat.hold(7)
    channel.forget(0, 7)
    assert list(channel.slots()) == []
    assert channel.ask_all(Cause.SHUTDOWN) == 0
    seat.hold(8)
    channel.forget(0, 7)
    assert list(channel.slots()) == [(0, 8, os.getpid())]


class Stores(list[int]):
    """Words that write down each store to them."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(words)
        self.made: list[tuple[int, int]] = []

    def __setitem__(self, word: Any, value: Any) -> None:
        super().__setitem__(word, value)
        self.made.append((word, value))


class Interleaved(list[int]):
    """Words to which another process stores between the loads: before load n, as many stores as the plan's nth says."""

    def __init__(self, words: list[int], stores: list[tuple[int, int]], plan: tuple[int, ...]) -> None:
        super().__init__(words)
        self.stores, self.plan = list(stores), list(plan)

    def __getitem__(self, word: Any) -> Any:
        for _ in range(self.plan.pop(0) if self.plan else len(self.stores)):
            if self.stores:
                super().__setitem__(*self.stores.pop(0))
        return super().__getitem__(word)


def test_no_interleaving_shows_a_dead_childs_token_with_its_successors_pid() -> None:
    channel = StopChannel(1)
    pipe = channel._slots[0].pipe
    dead = [0] * WORDS_PER_SLOT
    dead[Word.TOKEN], dead[Word.PID] = 7, 1
    words = Stores(dead)
    Seat(Slot(words, pipe)).hold(8)
    seen = set()
    for plan in itertools.product(range(len(words.made) + 1), repeat=6):
        channel._slots[0] = Slot(Interleaved(dead, words.made, plan), pipe)
        seen.add(channel.held(0))
    assert seen == {(7, 1), (0, 1), (0, os.getpid()), (8, os.getpid())}


def test_a_body_thread_may_go_on_while_the_control_thread_waits() -> None:
    channel = StopChannel(1)
    seat = channel.seat(0)
    heard = []
    control = threading.Thread(target=lambda: heard.append((seat.wait(30), seat.stop_cause())))
    seat.hold(7)
    control.start()
    channel.ask(0, 7, Cause.CANCEL)
    control.join(5)
    assert heard == [(True, Cause.CANCEL)]


@pytest.mark.parametrize("token", [0, -1, 2**58])
def test_an_impossible_token_is_refused(token: int) -> None:
    channel = StopChannel(1)
    with pytest.raises(ValueError, match=f"fencing token must be above 0 and below 2\\*\\*58, not {token}"):
        channel.seat(0).hold(token)
    with pytest.raises(ValueError, match="fencing token"):
        channel.ask(0, token, Cause.CANCEL)
    with pytest.raises(ValueError, match="fencing token"):
        channel.trust(0, token, boottime_ns())


@pytest.mark.parametrize("slot", [-1, 2])
def test_a_slot_that_does_not_exist_is_refused(slot: int) -> None:
    with pytest.raises(ValueError, match=f"slot {slot} does not exist: the stop channel has 2"):
        StopChannel(2).held(slot)


def test_a_channel_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one slot, not 0"):
        StopChannel(0)


def test_each_cause_has_its_exception_and_each_exception_its_cause() -> None:
    raised = {cause: type(stop_for(cause)) for cause in Cause}
    assert raised == {
        Cause.CANCEL: Cancelled,
        Cause.DEADLINE: DeadlineExceeded,
        Cause.SHUTDOWN: ShuttingDown,
        Cause.LEASE_LOST: LeaseLost,
    }
    assert all(kind.cause is cause for cause, kind in raised.items())
    assert len({str(stop_for(cause)) for cause in Cause}) == 4
    with pytest.raises(ValueError, match="0 is not a valid Cause"):
        stop_for(0)


def test_an_authors_except_exception_cannot_swallow_a_stop() -> None:
    def body() -> None:
        try:
            raise stop_for(Cause.CANCEL)
        except Exception:
            pytest.fail("swallowed")

    with pytest.raises(Stop, match="cancelled on request"):
        body()
