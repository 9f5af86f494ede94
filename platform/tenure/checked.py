"""The steps of a schedule as tasks would carry them: kinds looked up, params validated and encoded. Done once per
revision: it must not be done again while a claimed schedule's row is held."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from tenure.model import requests
from tenure.model.definitions import StepSpec
from tenure.model.errors import KindIsInternal, TenureError
from tenure.model.kinds import KindSpec
from tenure.registry import Registry
from tenure.store.schedules import Schedule

KEPT = 1000  # schedules whose steps are remembered


@dataclass(frozen=True)
class CheckedStep:
    """`body`: the params as canonical JSON; `digest`: its SHA-256 in hex."""

    group_index: int
    step: StepSpec
    spec: KindSpec
    body: str
    digest: str


class Checks:
    """Answers the checked steps of a schedule, or in a line why they cannot be submitted. Not for several threads."""

    def __init__(self, registry: Registry, params_bytes: int) -> None:
        self._registry = registry
        self._params_bytes = params_bytes
        self._known: OrderedDict[tuple[UUID, int], tuple[CheckedStep, ...] | str] = OrderedDict()

    def of(self, schedule: Schedule) -> tuple[CheckedStep, ...] | str:
        """The line is fit to be stored: it quotes no value."""
        key = (schedule.id, schedule.revision)
        if key not in self._known:
            self._known[key] = self._check(schedule)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _check(self, schedule: Schedule) -> tuple[CheckedStep, ...] | str:
        try:
            return tuple(
                self._step(schedule, at, step) for at, group in enumerate(schedule.spec.steps) for step in group
            )
        except TenureError as error:
            return requests.storable(str(error)) or type(error).__name__
        except Exception as error:  # of a kind's own check: other schedules must not pay for it
            return f"the params of a step cannot be checked: {type(error).__name__} in the kind's own check"

    def _step(self, schedule: Schedule, at: int, step: StepSpec) -> CheckedStep:
        spec = self._registry.spec(step.kind)
        if spec.internal is not None and not schedule.built_in:
            raise KindIsInternal(f"kind {spec.name} is internal: use {spec.internal}")
        # What a kind's own check says may quote the value: not for a row that is kept.
        body = requests.encode(spec, spec.validate(step.params, own_checks=False), self._params_bytes)
        return CheckedStep(at, step, spec, body, hashlib.sha256(body.encode()).hexdigest())
