"""The safety net under executions: finds those that stand still though nothing keeps them, whatever was lost on the way."""

from __future__ import annotations

from tenure.runtime.advancing import Advancer
from tenure.settings import Settings

PACE = 30.0  # s
YOUNG = 5.0  # s: what has just started is not stuck


class SafetyNet:
    """One round moves on every unfinished execution with no task under way. Plain SQL; any number of them."""

    name = "safety_net"

    def __init__(self, settings: Settings, *, options: str = "-c lock_timeout=1000") -> None:
        self._advancer = Advancer(settings.session_url, application="tenure safety net", options=options)

    def run_once(self) -> float:
        self._advancer.stuck(older=YOUNG)
        return PACE

    def close(self) -> None:
        self._advancer.close()
