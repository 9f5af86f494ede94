"""When schedules recur, and what becomes of occurrences that were missed. Pure."""

from tenure.model.recurrence.misfire import Due, Misfire, due, resumed
from tenure.model.recurrence.rules import Cron, Every, Recurrence, next_after, occurrences, parse_cron

__all__ = ["Cron", "Due", "Every", "Misfire", "Recurrence", "due", "next_after", "occurrences", "parse_cron", "resumed"]
