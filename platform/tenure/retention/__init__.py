"""Retention: how the kinds `platform.retention` and those of domains delete in batches, within a time, stopping and resuming."""

from tenure.retention.batches import Budget, drain
from tenure.retention.kind import RETENTION, Retention

__all__ = ["RETENTION", "Budget", "Retention", "drain"]
