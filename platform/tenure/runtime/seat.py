"""One slot of a worker as its child sees it: the task it holds, whether it is to stop, until when it is trusted.

Everything is a load or a store of one word. A slot has one child and one writer in the main process; no locks, ever.
"""

import os
import struct
import time
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from tenure.model.stops import Cause, LeaseLost, stop_for
from tenure.runtime.instance import start_ticks
from tenure.runtime.shared import WakePipe, Words

TOKEN_LIMIT = 1 << 58
_CAUSE_BITS = 4
_LONGEST_S = 1e9  # thirty years: a later deadline does not fit the word, and does not matter
_WORDS = struct.Struct(">qq")


class Word(IntEnum):
    """The words of a slot. The child writes TOKEN, PID, STARTED, PATIENCE, TASK and DEADLINE, the main process the others: never both the same."""

    TOKEN = 0  # the fencing token held, 0 for none
    PID = 1
    STOP = 2  # token << 4 | cause
    TRUST = 3  # nanoseconds of CLOCK_BOOTTIME
    TRUST_SEAL = 4  # the above, exclusive-or the token it is meant for
    FORGOTTEN = 5  # a token whose holder is dead and settled
    PATIENCE = 6  # milliseconds: stop_within << 32 | drain; written by the child before the token
    TASK = 7  # the task's id, in this word and the next: to be named in the log also when no database answers
    DEADLINE = 9  # nanoseconds of CLOCK_BOOTTIME, 0 for none
    STARTED = 10  # when the process of PID began (`start_ticks`): a pid alone may be another's by now


WORDS_PER_SLOT = 16  # two cache lines, so that neighbours do not slow each other


@dataclass(frozen=True, slots=True)
class Slot:
    """The shared half: the words, and the pipe that wakes the child."""

    words: Words
    pipe: WakePipe


def boottime_ns() -> int:
    """Now, in the clock of trust: unlike the monotonic clock it goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def check_token(token: int) -> None:
    """ValueError unless the token fits: the stop word keeps four bits of 62 for the cause."""
    if not 0 < token < TOKEN_LIMIT:
        raise ValueError(f"a fencing token must be above 0 and below 2**58, not {token}")


def stop_word(token: int, cause: Cause) -> int:
    """One word that is both whom the stop is for and why: they cannot come apart."""
    return token << _CAUSE_BITS | cause


def task_in(words: Words) -> UUID:
    """The task a slot's words name; zero when its holder said none."""
    return UUID(bytes=_WORDS.pack(words[Word.TASK], words[Word.TASK + 1]))


def cause_for(word: int, token: int) -> int:
    """The cause in a stop word, or 0 when there is none or it is meant for another token."""
    return word & (1 << _CAUSE_BITS) - 1 if token and word >> _CAUSE_BITS == token else 0


@dataclass(slots=True)
class _Hold:
    """One task in hand. Replaced as a whole, so a second thread never sees one hold's token with another's trust."""

    token: int
    trusted_until_ns: int


class Seat:
    """A child's side of its slot: taken once in the child, used by its body thread and its control thread.

    Only one thread may `wait`: it takes the bytes out. Others ask `stop_cause()` at their safe points.
    """

    def __init__(self, slot: Slot, pid: int | None = None) -> None:
        """`pid`: who sits here, the process by default; in a pool of threads the thread's own id."""
        self._pid = pid or os.getpid()
        self._started = start_ticks(self._pid)
        self._words = slot.words
        self._pipe = slot.pipe
        self._hold = _Hold(0, 0)
        self._publish(0)  # what a dead predecessor held is not ours

    def hold(
        self,
        token: int,
        trusted_until_ns: int = 0,
        *,
        stop_within: float = 1.0,
        drain: float = 0.0,
        task_id: UUID | None = None,
        seconds_left: float | None = None,
    ) -> None:
        """Say which task is in hand, right after its claim, and until when its lease is good (`boottime_ns`).

        `stop_within` and `drain` (s) are its kind's: how long the main process waits before it ends this child.
        `seconds_left`: to its deadline, for the main process to ring.

        0 means not anchored yet: trusted until the first renewal says more. ValueError for an impossible token.
        """
        check_token(token)
        self._hold = _Hold(token, trusted_until_ns)
        self._words[Word.PATIENCE] = int(stop_within * 1000) << 32 | int(drain * 1000)
        self._words[Word.TASK], self._words[Word.TASK + 1] = _WORDS.unpack(task_id.bytes if task_id else bytes(16))
        left = None if seconds_left is None else int(min(seconds_left, _LONGEST_S) * 1e9)
        self._words[Word.DEADLINE] = 0 if left is None else boottime_ns() + left
        self._publish(token)

    def release(self) -> None:
        """Say that nothing is in hand, after the lease was given back."""
        self._hold = _Hold(0, 0)
        self._words[Word.TOKEN] = 0

    def stop_cause(self) -> int:
        """The `Cause` for which the task in hand is to stop, else 0. A stop meant for another token does not count."""
        return cause_for(self._words[Word.STOP], self._hold.token)

    def trusted(self) -> bool:
        """False once the time to which the lease was last known to be good has passed: it may be another's by now."""
        hold = self._hold
        until, seal = self._words[Word.TRUST], self._words[Word.TRUST_SEAL]
        # The two words are stored one after the other, in no order to rely on. Half a renewal, or one for another
        # token, does not come out as ours, and what was known before goes on counting: the safe side.
        if hold.token and until ^ seal == hold.token:
            hold.trusted_until_ns = max(hold.trusted_until_ns, until)
        return hold.trusted_until_ns == 0 or boottime_ns() < hold.trusted_until_ns

    def check_trust(self) -> None:
        """Raise `LeaseLost` unless `trusted()`."""
        if not self.trusted():
            raise LeaseLost("the lease on the task was not renewed in time: another attempt may hold it")

    def check(self) -> None:
        """Raise the stop there is, if any. Lost trust comes first: no other outcome could still be written."""
        self.check_trust()
        if cause := self.stop_cause():
            raise stop_for(cause)

    def wait(self, timeout: float | None) -> bool:
        """Wait for word from the main process. True says only "look at `stop_cause()`"; False, the time passed.

        A stop makes one wait return, not each one after it; one said between two waits is not missed.
        """
        woken = self._pipe.wait(timeout)
        if woken:
            self._pipe.drain()
        return woken

    def fileno(self) -> int:
        """Readable when `wait` would return at once, for whoever has a poll() of its own."""
        return self._pipe.fileno()

    def _publish(self, token: int) -> None:
        # No token stands while the pid changes: the main process must never take a dead child's token for a live one's.
        self._words[Word.TOKEN] = 0
        self._words[Word.PID] = self._pid
        self._words[Word.STARTED] = self._started
        self._words[Word.TOKEN] = token
