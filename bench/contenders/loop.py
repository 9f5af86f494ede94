"""The floor: our claim and end statements in a bare loop, without Celery, broker, dispatcher, executor or events.

`python -m bench.contenders.loop` with TENURE_DATABASE_URL; ends on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from uuid import UUID, uuid4

from bench.kinds.noop import noop, tiny
from tenure.model.kinds import Kind
from tenure.model.records import Holder
from tenure.runtime.outcome import SUCCEEDED
from tenure.store.hot import HotSession, RunOn


def run(kind: Kind, k: int) -> None:
    """Claim, end and claim, until the process is told to end."""
    worker = UUID(int=uuid4().int)
    name = kind.spec.name
    session = HotSession(os.environ["TENURE_DATABASE_URL"], Holder(worker, os.getpid()), [name], lease_seconds=30.0)
    run_on = RunOn(kind.spec.queue, [name], k)
    while True:
        got = session.claim_next(run_on)
        while got:
            _, got = session.end([one.lease for one in got], SUCCEEDED, run_on=run_on)
        time.sleep(0.005)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    run(tiny if sys.argv[1] == "tiny" else noop, int(sys.argv[2]))
