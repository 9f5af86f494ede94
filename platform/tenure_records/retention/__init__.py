"""How long objects are kept, class by class, and evidence of retired schemas."""

from tenure_records.retention.policy import Policy, get_retention, set_retention

__all__ = ["Policy", "get_retention", "set_retention"]
