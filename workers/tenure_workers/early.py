"""Signals of a worker that is still importing. It holds nothing yet, so it leaves at once, by the documented codes.

Imports nothing that takes time: it is there for that time.
"""

import os
import signal
from types import FrameType


def leave_on_signals() -> None:
    """Until the lifecycle sets its own handlers: 0 on SIGTERM and SIGQUIT, 1 on SIGINT."""
    pid = os.getpid()

    def leave(number: int, _: FrameType | None) -> None:
        if os.getpid() == pid:
            os._exit(int(number == signal.SIGINT))

    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, leave)
