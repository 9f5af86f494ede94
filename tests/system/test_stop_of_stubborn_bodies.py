"""SIGTERM while a body does not hear: the ladder's later rungs. The end is recorded, and who it was is in the log."""

import pytest

from tests.support import stopping
from tests.support.databases import Database
from tests.support.kinds.stubborn import stubborn
from tests.support.submitted import FULL, Tasks
from tests.support.workers import Worker

# mode → (whether its end must be forced, within which its process has to be gone)
FORCED = {"sql": False, "swallow": False, "finally": True, "c_free": True, "c_held": True, "pool": True}
HEARD_S, CHILD_S, MAIN_S = 10.0, 12.0, 16.0
TOGETHER = [("sql", "swallow", "finally", "c_held")]
ALONE = [(mode,) for mode in FORCED]
WITHIN = {"sql": HEARD_S, "swallow": HEARD_S, "c_held": MAIN_S}


@pytest.mark.parametrize("modes", TOGETHER + (ALONE if FULL else []))
def test_sigterm_ends_a_body_that_does_not_hear_and_names_it(
    module_database: Database, module_broker: str, tasks: Tasks, modes: tuple[str, ...]
) -> None:
    with Worker(module_database.url, module_broker, concurrency=len(modes)) as worker:
        worker.wait_ready()
        ids = {one: tasks.submit(stubborn, mode=one)[0] for one in modes}
        stopping.in_body(tasks, list(ids.values()))
        signalled_at = stopping.now(tasks)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
        log = worker.lines()
        text = worker.text()
    assert code == 0, text[-3000:]
    assert seconds < max(WITHIN.get(one, CHILD_S) for one in modes)
    print(f"\nFIGURE exit with bodies in {'+'.join(modes)}: {seconds:.1f} s")
    for one, task_id in ids.items():
        assert tasks.states([task_id]) == {"failed service_unavailable": 1}
        end = stopping.last_end(tasks, task_id)
        assert end.forced is FORCED[one], f"{one}: {text[-3000:]}"
        print(f"FIGURE {one} row: {(end.finished_at - signalled_at).total_seconds():.2f} s")
        named = [line for line in log if line.get("task_id") == str(task_id) and line.get("kind") == "stubborn"]
        assert bool(named) is FORCED[one], text[-3000:]
