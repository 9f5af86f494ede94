"""Whether a schedule can be kept: its name, and every step as its kind takes it. Before anything is written."""

from __future__ import annotations

from tenure import registry, settings
from tenure.model import requests
from tenure.model.definitions import ScheduleSpec, StepSpec
from tenure.model.errors import KindIsInternal, ScheduleInvalid, TenureError, UsageError, shortened
from tenure.registry import Registry

NAME_BYTES = 200
STEPS = 100


def check(spec: ScheduleSpec, *, built_in: bool = False) -> None:
    """Raises UsageError (ScheduleInvalid, UnknownKind, InvalidParams, …) naming the step, or KindIsInternal."""
    name = spec.name
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES or shortened(name, NAME_BYTES) != name:
        raise ScheduleInvalid(f"name {shortened(name)!r}: 1 to {NAME_BYTES} bytes that can be printed on one line")
    requests.check_text(schedule_name=name)
    count = sum(len(group) for group in spec.steps)
    if not 1 <= count <= STEPS:
        raise ScheduleInvalid(f"schedule {name}: {count} steps, 1 to {STEPS} are allowed")
    if built_in:
        return  # its kinds may not be installed where the database is migrated
    known = settings.load()
    kinds = registry.load(known.kind_packages)
    for number, step in enumerate((step for group in spec.steps for step in group), 1):
        try:
            _check_step(step, kinds, known.params_bytes)
        except TenureError as error:
            raise type(error)(f"schedule {name}, step {number}: {error}") from None


def _check_step(step: StepSpec, kinds: Registry, params_bytes: int) -> None:
    spec = kinds.spec(step.kind)
    if spec.internal is not None:
        raise KindIsInternal(f"kind {spec.name} is internal: use {spec.internal}")
    requests.encode(spec, step.params, params_bytes)
    for name, text in (("queue", step.queue), ("scope", step.scope)):
        if text is not None:
            requests.check_name(name, text, shortest=1)
    if step.queue is not None and step.queue.split() != [step.queue]:
        raise UsageError(f"queue {shortened(step.queue)!r}: a name without spaces")
    if step.deadline is not None and step.deadline > requests.FARTHEST.total_seconds():
        raise UsageError(f"deadline {step.deadline:g} s: at most 100 years")
