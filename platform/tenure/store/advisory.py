"""The advisory keys of this database, all of them: two uses of one key would wait for each other, or skip each other."""

from __future__ import annotations

from typing import Final

MIGRATING: Final = 0x7E11_0001  # somebody migrates; workers wait, healthy, while it is held
NOTIFYING: Final = 0x7E11_0002  # who holds it sends this moment's NOTIFY
CLAIMING: Final = 0x7E11_0003  # in `claim_refusal`: shared by all claims, taken whole by what runs alone everywhere
PARTITIONING: Final = 0x7E11_0004  # somebody makes partitions
APPLYING: Final = 0x7E11_0005  # somebody compares schedules with a file, and changes them

# Upper halves; the lower 32 bits say which one.
ACTIVE_LIMITS: Final = 0x7E11  # a kind's active limit for one submitter
RECORD_CLASSES: Final = 0x7E12  # the definitions of one record class
STARTING: Final = 0x7E13  # whose turn it is among the executions of one schedule that wait


def within(space: int, which: int) -> int:
    """The key of one member of a space. ValueError for one that does not fit the lower half: it would be another's."""
    if not 0 <= which < 1 << 32:
        raise ValueError(f"advisory key {which} does not fit 32 bits")
    return space << 32 | which
