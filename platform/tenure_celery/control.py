"""Remote control of our app: to revoke a task is to ask its row to stop. No Celery revoke is sent for it.

Workers would remember a revoked id for hours, and silently drop later attempts of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery.app import control


class Control(control.Control):
    """Celery's, but for `revoke` and `terminate` of tasks that are rows."""

    def revoke(
        self,
        task_id: str | Sequence[str],
        destination: Any = None,
        terminate: bool = False,
        signal: Any = "TERM",
        **kwargs: Any,
    ) -> Any:
        """Ask to stop, pending or active: `terminate` makes no difference, the body is told, then made to.

        Harmless twice and for ended tasks. Ids without a row are Celery's own tasks: they go on to their workers.
        With `reply=True` answers one reply, {"tenure": {"ok": {id: state}}}.
        """
        states, strangers = self.app.cancel([task_id] if isinstance(task_id, str) else list(task_id), "revoked")
        replies = [{"tenure": {"ok": states}}] if states else []
        if strangers and self.app.conf.broker_url:
            options = {"destination": destination, "terminate": terminate, "signal": signal}
            replies += super().revoke(strangers, **options, **kwargs) or []
        return replies if kwargs.get("reply") else None
