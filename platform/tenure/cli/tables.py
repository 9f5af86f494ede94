"""How wide the columns of a table are: on a terminal some give way, in an order that the table names; nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

GAP = 2  # blanks between columns
LAST = 20  # what the last column keeps: the start of an error says most


def fitted(widths: Mapping[str, int], gives_way: Mapping[str, int], available: int | None) -> dict[str, int]:
    """Widths of the columns to show, by heading, for `available` characters (None: no bound).

    The last column gives way first, down to LAST; then those of `gives_way`, to the width named there; then they are
    left out, in their order, until the rest fits. What is not named is shown whole, even when that does not fit.
    """
    shown = dict(widths)
    if available is None:
        return shown
    for left_out in (None, *(name for name in gives_way if name in widths)):
        shown = {name: width for name, width in shown.items() if name != left_out}
        made = _narrowed(shown, gives_way, available)
        if _total(made) <= available:
            return made
    return made


def _narrowed(widths: Mapping[str, int], gives_way: Mapping[str, int], available: int) -> dict[str, int]:
    made = dict(widths)
    last = list(made)[-1]
    floors = {} if last in gives_way else {last: LAST}
    floors |= {name: floor for name, floor in gives_way.items() if floor and name in made}
    for name, floor in floors.items():
        excess = max(0, _total(made) - available)
        made[name] = max(made[name] - excess, min(made[name], max(floor, len(name))))
    return made


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
