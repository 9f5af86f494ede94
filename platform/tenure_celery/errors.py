"""Errors of the front door, in the one tree of tenure.model.errors."""

from __future__ import annotations

from uuid import UUID

from tenure.model.errors import TenureError, UsageError


class UnsupportedByTenure(UsageError):
    """Something Celery offers and a durable task cannot have; the message names what to use instead."""


class TaskFailed(TenureError):
    """What `result.get()` raises for a task that ended `failed`. Its text is the stored error, sanitized."""

    def __init__(self, message: str, *, task_id: UUID | None = None, outcome: str = "", code: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id
        self.outcome = outcome
        self.code = code
