"""`python -m bench [noop] [latency] [submit] [reindex] [validation] [renewal] [retention] [schedules] [judging] [items] [--quick] [--json]`: one
table on stdout, progress on stderr."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console

from bench import items, judging, latency, noop, reindex, renewal, retention, schedules, submitting, table, validation
from bench.conditions import conditions
from bench.figures import Figure
from bench.place import place
from bench.processes import BenchError
from bench.run import Run
from tenure.model.errors import TenureError

PARTS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    noop.PART: noop.measure,
    latency.PART: latency.measure,
    submitting.PART: submitting.measure,
    reindex.PART: reindex.measure,
    validation.PART: validation.measure,
    renewal.PART: renewal.measure,
    judging.PART: judging.measure,
    retention.PART: retention.measure,
    schedules.PART: schedules.measure,
    items.PART: items.measure,
}


def main(arguments: Sequence[str]) -> int:
    """0: everything was measured, whatever the figures. 1: something did not run; 2: wrong usage; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smaller counts and fewer comparators: for trying it out")
    parser.add_argument("--json", action="store_true", help="JSON with every repeat instead of the table")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0][:40]!r}: parts are {', '.join(PARTS)}")
    stderr = Console(stderr=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    try:
        return _run(stderr, given.parts or list(PARTS), quick=given.quick, as_json=given.json)
    except (BenchError, TenureError) as error:
        stderr.print(f"bench: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(stderr: Console, parts: Sequence[str], *, quick: bool, as_json: bool) -> int:
    began = time.monotonic()
    figures: list[Figure] = []
    with stderr.status("starting servers") as status, place() as here:
        run = Run(here, status, stderr, quick)
        found = conditions(here)
        failed = _measure(run, parts, figures)
        status.update("stopping servers")
    found |= {
        "repeats": run.repeats,
        "counts": "quick" if quick else "full",
        "took": f"{time.monotonic() - began:.0f} s",
    }
    if as_json:
        print(table.as_json(figures, found))
    else:
        out = Console()
        table.show(out if out.is_terminal else Console(width=170), figures, found)
    return failed


def _measure(run: Run, parts: Sequence[str], figures: list[Figure]) -> int:
    """Add the figures of each part; 1 at the first that could not be measured. What was measured before it counts."""
    for name in parts:
        try:
            figures += PARTS[name](run)
        except (BenchError, TenureError) as error:
            run.console.print(f"bench: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
