"""How a worker's main process tells its children to stop, and until when their leases are good.

Made before any fork, so that every child inherits it. Takes no locks and no database: it must work when those do not.
"""

from collections.abc import Iterator
from uuid import UUID

from tenure.model.stops import Cause
from tenure.runtime.instance import alive
from tenure.runtime.seat import (
    WORDS_PER_SLOT,
    Seat,
    Slot,
    Word,
    boottime_ns,
    cause_for,
    check_token,
    stop_word,
    task_in,
)
from tenure.runtime.shared import WakePipe, shared_words


class StopChannel:
    """A fixed number of slots, one child each: `seat` is the child's side, the rest is for the main process.

    `ask` and `ask_all` may be called from any thread and from signal handlers; `trust` from one thread, the keeper.
    """

    def __init__(self, slots: int) -> None:
        """ValueError for less than one slot: make as many as the pool may ever have children."""
        if slots < 1:
            raise ValueError(f"a stop channel needs at least one slot, not {slots}")
        self._slots = [Slot(words, WakePipe()) for words in shared_words(slots, WORDS_PER_SLOT)]

    def __len__(self) -> int:
        return len(self._slots)

    def seat(self, slot: int, pid: int | None = None) -> Seat:
        """Take the slot, in the child, once: what a dead predecessor held there is gone from then on. `pid`: see `Seat`."""
        return Seat(self._slot(slot), pid)

    def held(self, slot: int) -> tuple[int, int]:
        """(token, pid) as the child last said; token 0 when it holds nothing. The pid may be dead by now."""
        words = self._slot(slot).words
        while True:
            token, pid = words[Word.TOKEN], words[Word.PID]
            if words[Word.TOKEN] == token:  # else the child moved on in between, and the pid may be a successor's
                return (0 if token == words[Word.FORGOTTEN] else token), pid

    def alive(self, slot: int, token: int, pid: int) -> bool:
        """Whether the process that took this token in hand still runs; a later process with its pid is not it."""
        words = self._slot(slot).words
        started = words[Word.STARTED]
        # The child moved on in between: what was read may be its successor's.
        return alive(pid, started if words[Word.TOKEN] == token and words[Word.PID] == pid else 0)

    def slots(self) -> Iterator[tuple[int, int, int]]:
        """(slot, token, pid) of every slot that holds a task, as of when the iteration gets there."""
        for slot in range(len(self._slots)):
            token, pid = self.held(slot)
            if token:
                yield slot, token, pid

    def ask(self, slot: int, token: int, cause: Cause) -> bool:
        """Ask the attempt with this token to stop. False when the slot no longer holds it: nothing was asked.

        A stronger cause already asked for stays. Never blocks. The child may go on to another task in this very
        moment: it ignores the word, since that names the token.
        """
        check_token(token)
        seat = self._slot(slot)
        if self.held(slot)[0] != token:
            return False
        known = cause_for(seat.words[Word.STOP], token)
        if not known or cause.rank < Cause(known).rank:
            seat.words[Word.STOP] = stop_word(token, cause)
        seat.pipe.ring()
        return True

    def ask_all(self, cause: Cause) -> int:
        """Ask every attempt in hand to stop; how many were asked. A child must look at the process's own stop before
        it claims again: what it takes in hand after this call is not asked."""
        return sum(self.ask(slot, token, cause) for slot, token, _ in self.slots())

    def asked(self, slot: int, token: int) -> Cause | None:
        """For what this token was asked to stop; also answers for a child that is dead, until the slot is used again."""
        cause = cause_for(self._slot(slot).words[Word.STOP], token)
        return Cause(cause) if cause else None

    def task(self, slot: int) -> UUID:
        """The task in hand, for a line in the log: no lock ties it to the token."""
        return task_in(self._slot(slot).words)

    def overdue(self, slot: int) -> bool:
        """Whether the deadline of the task in hand has passed, as its claim told."""
        deadline = self._slot(slot).words[Word.DEADLINE]
        return 0 < deadline <= boottime_ns()

    def patience(self, slot: int) -> tuple[float, float]:
        """(stop_within, drain) in seconds of the kind in hand."""
        word = self._slot(slot).words[Word.PATIENCE]
        return (word >> 32) / 1000, (word & 0xFFFFFFFF) / 1000

    def trust(self, slot: int, token: int, until_ns: int) -> bool:
        """Say to when the lease with this token is good: start of the renewal + lease, in `boottime_ns`.

        False when the slot no longer holds the token. Trust only grows: a lease that is lost is said with `ask`.
        The child may go on to another task between the look and the stores: the pair is sealed with its token, so a
        late one never counts for the newer; the newer then stands on what its claim said, until its own renewal.
        """
        check_token(token)
        words = self._slot(slot).words
        if self.held(slot)[0] != token:
            return False
        words[Word.TRUST] = until_ns
        words[Word.TRUST_SEAL] = until_ns ^ token
        return True

    def forget(self, slot: int, token: int) -> None:
        """Stop reporting this token as held: its child is dead and settled, and nobody has taken the slot since.

        A word of our own, not a 0 in the child's: a successor may be writing there now.
        """
        check_token(token)
        self._slot(slot).words[Word.FORGOTTEN] = token

    def _slot(self, slot: int) -> Slot:
        if not 0 <= slot < len(self._slots):
            raise ValueError(f"slot {slot} does not exist: the stop channel has {len(self._slots)}, counted from 0")
        return self._slots[slot]
