"""A stop ends every wait at once, wherever it is asked for and whoever waits."""

import ast
import gc
import os
import re
import resource
import select
import signal
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tenure.embedded import locks, supervisor
from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import Shutdown, StopAware, Watcher
from tests.support.forks import forked
from tests.support.promptness import PROMPT_S, best_of

QUARTER_HOUR = 900.0
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def quarter_hour_wait(watcher: StopAware) -> bool:
    return Backoff(initial=QUARTER_HOUR).wait(watcher)


class Sleeper(threading.Thread):
    """A thread in a quarter of an hour's wait; knows when and how it ended."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(daemon=True)
        self.watcher = watcher
        self.full_time: bool | None = None
        self.ended = 0.0
        self.start()

    def run(self) -> None:
        self.full_time = quarter_hour_wait(self.watcher)
        self.ended = time.monotonic()


def is_waiting_in_poll(thread: threading.Thread) -> bool:
    """The kernel's word for it, so that a test need not guess by sleeping."""
    try:
        return "poll" in Path(f"/proc/self/task/{thread.native_id}/wchan").read_text()
    except OSError:
        return True


def wait_until_asleep(thread: threading.Thread) -> None:
    deadline = time.monotonic() + 0.2
    while not is_waiting_in_poll(thread) and time.monotonic() < deadline:
        time.sleep(0.001)


def test_a_quarter_hour_wait_ends_within_50_ms_of_a_stop_from_another_thread() -> None:
    def lateness() -> float:
        shutdown = Shutdown()
        sleeper = Sleeper(shutdown.watcher())
        wait_until_asleep(sleeper)
        asked = time.monotonic()
        shutdown.stop()
        sleeper.join(5)
        assert sleeper.full_time is False
        return sleeper.ended - asked

    assert best_of(lateness) < PROMPT_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_quarter_hour_wait_ends_within_50_ms_of_a_signal(number: signal.Signals) -> None:
    def lateness() -> float:
        shutdown = Shutdown()
        shutdown.listen_for_signals()
        asked = []

        def raise_signal() -> None:
            asked.append(time.monotonic())
            signal.pthread_kill(threading.main_thread().ident or 0, number)

        timer = threading.Timer(0.01, raise_signal)
        timer.start()
        assert quarter_hour_wait(shutdown.watcher()) is False
        ended = time.monotonic()
        timer.join()
        return ended - asked[0]

    assert best_of(lateness) < PROMPT_S


def test_a_quarter_hour_wait_in_a_forked_child_ends_within_50_ms_of_the_parents_stop() -> None:
    def lateness() -> float:
        shutdown = Shutdown()

        def body(line: Connection) -> None:
            line.send("waiting")
            line.send((quarter_hour_wait(shutdown.watcher()), time.monotonic()))

        with forked(body) as child:
            assert child.hear() == "waiting"
            asked = time.monotonic()
            shutdown.stop()
            full_time, ended = child.hear()
            assert full_time is False
            return ended - asked

    assert best_of(lateness) < PROMPT_S


def test_a_child_forked_after_the_stop_does_not_wait() -> None:
    shutdown = Shutdown()
    shutdown.stop()

    def body(line: Connection) -> None:
        watcher = shutdown.watcher()
        line.send((watcher.is_running(), bool(select.select([watcher], [], [], 0)[0]), quarter_hour_wait(watcher)))

    with forked(body) as child:
        assert child.hear() == (False, True, False)


def test_every_child_sees_the_one_stop_since_nobody_reads_the_byte() -> None:
    shutdown = Shutdown()

    def body(line: Connection) -> None:
        line.send(quarter_hour_wait(shutdown.watcher()))

    with forked(body) as first, forked(body) as second, forked(body) as third:
        shutdown.stop()
        assert [child.hear() for child in (first, second, third)] == [False, False, False]


def test_a_child_can_stop_its_parent() -> None:
    shutdown = Shutdown()
    with forked(lambda line: shutdown.stop()):
        assert quarter_hour_wait(shutdown.watcher()) is False


def test_two_watchers_both_see_one_stop() -> None:
    shutdown = Shutdown()
    sleepers = [Sleeper(shutdown.watcher()), Sleeper(shutdown.watcher())]
    shutdown.stop()
    for sleeper in sleepers:
        sleeper.join(5)
    assert [sleeper.full_time for sleeper in sleepers] == [False, False]


def test_a_watcher_cannot_ask_for_a_stop() -> None:
    assert not [name for name in vars(Watcher) if "stop" in name or "trip" in name]


def test_a_sleep_without_a_stop_takes_its_full_time() -> None:
    watcher = Shutdown().watcher()
    started = time.monotonic()
    assert watcher.sleep(0.02) is True
    assert time.monotonic() - started >= 0.02
    assert watcher.is_running()


def test_a_sleep_after_the_stop_returns_false_at_once() -> None:
    shutdown = Shutdown()
    shutdown.stop()
    watcher = shutdown.watcher()

    def lateness() -> float:
        started = time.monotonic()
        assert watcher.sleep(QUARTER_HOUR) is False
        assert watcher.sleep(0) is False
        assert quarter_hour_wait(watcher) is False
        return time.monotonic() - started

    assert best_of(lateness, 0.005) < 0.005


def test_stopping_twice_and_very_often_is_harmless() -> None:
    shutdown = Shutdown()
    for _ in range(70_000):  # more than a pipe holds
        shutdown.stop()
    assert not shutdown.watcher().is_running()


def test_deleting_the_shutdown_neither_ends_a_wait_nor_breaks_it() -> None:
    only_reference = [Shutdown()]
    watcher = only_reference[0].watcher()

    def body(line: Connection) -> None:
        line.recv()
        only_reference[0].stop()

    with forked(body) as child:
        dropped = weakref.ref(only_reference.pop())
        gc.collect()
        assert dropped() is None
        assert watcher.sleep(0.02) is True
        assert watcher.is_running()
        sleeper = Sleeper(watcher)
        wait_until_asleep(sleeper)
        assert sleeper.is_alive()
        child.say("stop")
        sleeper.join(5)
    assert sleeper.full_time is False


def test_the_signal_still_works_after_the_shutdown_was_dropped() -> None:
    watcher = Shutdown().watcher()
    shutdown = Shutdown()
    shutdown.listen_for_signals(signal.SIGUSR1)
    kept = shutdown.watcher()
    del shutdown
    gc.collect()
    signal.raise_signal(signal.SIGUSR1)
    assert (kept.is_running(), watcher.is_running()) == (False, True)


def test_the_descriptors_are_closed_with_the_last_watcher() -> None:
    shutdown = Shutdown()
    watcher = shutdown.watcher()
    fd = watcher.fileno()
    del shutdown
    os.fstat(fd)
    del watcher
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_sigterm_twice_is_harmless_and_calls_the_previous_handler_each_time() -> None:
    calls = []
    signal.signal(signal.SIGTERM, lambda number, frame: calls.append((number, watcher.is_running())))
    shutdown = Shutdown()
    watcher = shutdown.watcher()
    shutdown.listen_for_signals()
    shutdown.listen_for_signals()
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert calls == [(signal.SIGTERM, False)] * 2
    assert not watcher.is_running()


def test_an_interrupt_stops_in_good_order_instead_of_raising() -> None:
    shutdown = Shutdown()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shutdown.listen_for_signals()
    signal.raise_signal(signal.SIGINT)
    assert not shutdown.watcher().is_running()


def test_a_signal_to_a_child_kills_that_child_and_stops_nobody_else() -> None:
    shutdown = Shutdown()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    shutdown.listen_for_signals(signal.SIGTERM)

    def body(line: Connection) -> None:
        line.send("here")
        shutdown.watcher().sleep(QUARTER_HOUR)

    with forked(body) as child:
        assert child.hear() == "here"
        os.kill(child.pid, signal.SIGTERM)
        assert child.end() == -signal.SIGTERM
    assert shutdown.watcher().is_running()


def test_waiting_for_a_connection_returns_the_readable_ones_as_given() -> None:
    watcher = Shutdown().watcher()
    (near, far), (quiet, other) = socket.socketpair(), socket.socketpair()
    with near, far, quiet, other:
        assert watcher.wait_readable([near, quiet], 0) == []
        far.send(b"x")
        assert watcher.wait_readable([near, quiet], 5) == [near]
        assert watcher.wait_readable(near, 5) == [near]
        assert watcher.wait_readable(near.fileno(), None) == [near.fileno()]
        near.recv(1)
        far.close()
        assert watcher.wait_readable(near, 5) == [near], "the end of a connection has to wake its reader"


def test_waiting_for_a_connection_ends_at_the_stop_which_outranks_it() -> None:
    shutdown = Shutdown()
    watcher = shutdown.watcher()
    near, far = socket.socketpair()
    with near, far:
        timer = threading.Timer(0.01, shutdown.stop)
        timer.start()
        assert watcher.wait_readable(near, QUARTER_HOUR) == []
        timer.join()
        far.send(b"x")
        assert watcher.wait_readable(near, None) == []


def test_waiting_for_a_closed_descriptor_is_refused_not_spun_on() -> None:
    watcher = Shutdown().watcher()
    near, far = socket.socketpair()
    fd = near.fileno()
    near.close()
    with far, pytest.raises(OSError, match=f"descriptor {fd} was closed"):
        watcher.wait_readable(fd, 5)


def test_descriptors_above_1023_can_be_waited_for() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1100:
        pytest.skip("the limit of open files is too low here")
    near, far = socket.socketpair()
    with near, far:
        os.dup2(near.fileno(), 1099)
        try:
            far.send(b"x")
            assert Shutdown().watcher().wait_readable(1099, 5) == [1099]
        finally:
            os.close(1099)


def calls_of_time_sleep(path: Path) -> list[int]:
    tree = ast.parse(path.read_text())
    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "sleep" and ast.unparse(node.value) == "time")
        or (isinstance(node, ast.ImportFrom) and node.module == "time" and "sleep" in {a.name for a in node.names})
    ]


# The launcher of embedded servers runs no tasks and takes no part in a shutdown order: it looks for a condition, at
# most this often, each time against a deadline of its own.
LAUNCHER = ROOT / "platform" / "tenure" / "embedded"
LAUNCHER_PACE = 0.2


def test_no_loop_of_ours_sleeps_without_watching_for_a_stop() -> None:
    files = [path for top in ("platform", "workers", "beat") for path in (ROOT / top).rglob("*.py")]
    ours = [path for path in files if LAUNCHER not in path.parents]
    assert ours
    deaf = [f"{path.relative_to(ROOT)}:{line}" for path in ours for line in calls_of_time_sleep(path)]
    assert deaf == [], "use Watcher.sleep or Backoff.wait"


def test_the_launcher_of_servers_sleeps_in_short_paces_only() -> None:
    assert max(locks.PACE, supervisor.LEASE_CHECK) <= LAUNCHER_PACE
    calls = [line for path in LAUNCHER.rglob("*.py") for line in path.read_text().splitlines() if "time.sleep(" in line]
    assert calls
    assert all(re.search(r"time\.sleep\((locks\.)?(PACE|LEASE_CHECK)\)", line) for line in calls)
