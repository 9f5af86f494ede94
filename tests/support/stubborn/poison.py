"""`poison`: always takes its child with it."""

import os
import signal

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


@kind("poison", on_lost="resume", max_attempts=100)
def poison(attempt: Attempt, params: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
