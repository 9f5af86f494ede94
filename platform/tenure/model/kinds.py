"""Kinds: what a task of one kind is and promises. A spec is importable anywhere; its body runs only in workers.

A kind is one file in a package named by the entry point `tenure.kinds` or TENURE_KINDS; nothing else is edited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tenure.model.errors import InvalidKind, InvalidParams, shortened
from tenure.model.retry import RetryPolicy, numeric

if TYPE_CHECKING:
    from tenure.runtime.attempt import Attempt

NAME_BYTES = 200
PATIENCE_SECONDS = 3600  # the longest stop_within and drain
Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]


class NoParams(BaseModel):
    """The params model of a kind that takes none."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class KindSpec:
    """What submitters and recovery know of a kind. Durations are seconds.

    on_shutdown: "fail" (service unavailable), "release" (handed on, the attempt given back) or "finish" (up to
    `drain`, then fail). on_lost: "fail" or "resume" from the last checkpoint. `plans` puts the task into `validating`
    until the body calls `begin`. `tiny` says the body takes milliseconds and is idempotent:
    up to 8 may be claimed and ended in one statement.
    """

    name: str
    params: type[BaseModel] = NoParams
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 1
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    run_limit: float | None = None
    on_shutdown: Literal["fail", "release", "finish"] = "fail"
    on_lost: Literal["fail", "resume"] = "fail"
    drain: float = 10.0
    stop_within: float = 1.0
    internal: str | None = None  # the call to use instead, for kinds only domain code may create
    keep_params: str | None = None  # the reason, for kinds whose params outlive the task
    retry_resumes: bool = False
    plans: bool = False
    tiny: bool = False
    active_limit: int | None = None  # per submitter
    version: int = 1  # of the params; a task carries the version it was submitted with
    upgrades: Mapping[int, Upgrade] = field(
        default_factory=dict, hash=False
    )  # n: params of version n as those of n + 1
    aliases: tuple[str, ...] = ()  # names this kind had before: tasks that carry one are run as this kind
    limit: int | None = None  # so many of it run at once, unless an operator set another number
    scope: str | None = None  # what its tasks touch outside, unless a submission says another
    scope_limit: int | None = None  # so many tasks run at once in a scope that has no limit of its own
    exclusive: bool = False  # nothing runs beside it in its scope; without a scope nothing at all

    def __post_init__(self) -> None:
        if not self.name or len(self.name.encode()) > NAME_BYTES or self.name.split() != [self.name]:
            raise InvalidKind(f"kind name {shortened(self.name)!r}: 1 to {NAME_BYTES} bytes without spaces")
        if not 1 <= len(self.queue.encode()) <= NAME_BYTES or self.queue.split() != [self.queue]:
            raise InvalidKind(
                f"kind {self.name}: queue {shortened(self.queue)!r}: 1 to {NAME_BYTES} bytes without spaces"
            )
        if self.run_limit is not None and not (numeric(self.run_limit) and 0 < self.run_limit < 3.2e9):
            raise InvalidKind(f"kind {self.name}: run_limit must be seconds above 0, at most a hundred years")
        for name in ("stop_within", "drain"):
            seconds: float = getattr(self, name)
            if not (numeric(seconds) and 0 <= seconds <= PATIENCE_SECONDS):
                raise InvalidKind(f"kind {self.name}: {name} must be 0 to {PATIENCE_SECONDS} seconds")
        if not -32768 <= self.priority <= 32767:
            raise InvalidKind(f"kind {self.name}: priority must fit 16 bits")
        if self.max_attempts < 1:
            raise InvalidKind(f"kind {self.name}: max_attempts must be at least 1")
        if self.tiny and (self.on_lost != "resume" or self.run_limit is not None):
            # A batch is claimed at once: a neighbour's crash or slowness must cost nobody more than another run.
            raise InvalidKind(f'kind {self.name}: a tiny kind is idempotent: on_lost="resume", and no run_limit')
        for name in ("limit", "scope_limit"):
            number: int | None = getattr(self, name)
            if number is not None and not 1 <= number < 2**31:
                raise InvalidKind(f"kind {self.name}: {name} must be at least 1")
        self._check_names_and_versions()

    def _check_names_and_versions(self) -> None:
        if not 1 <= self.version <= 32767:
            raise InvalidKind(f"kind {self.name}: version must be 1 to 32767")
        if self.oldest < 1 or sorted(self.upgrades) != list(range(self.oldest, self.version)):
            raise InvalidKind(f"kind {self.name}: upgrades must lead step by step to version {self.version}")
        for alias in self.aliases:
            if not alias or len(alias.encode()) > NAME_BYTES or alias.split() != [alias] or alias == self.name:
                raise InvalidKind(f"kind {self.name}: alias {shortened(alias)!r}: another name without spaces")

    @property
    def names(self) -> tuple[str, ...]:
        """Its name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def oldest(self) -> int:
        """The oldest version of params that can be read."""
        return min(self.upgrades, default=self.version)

    def accepts(self, version: int) -> bool:
        """Whether stored params of this version can be read."""
        return self.oldest <= version <= self.version

    def upgraded(self, params: Any, version: int) -> Any:
        """Params of an older version as those of ours, not validated. Raises InvalidParams where no upgrade leads."""
        if not self.accepts(version):
            raise InvalidParams(
                f"{self.name}: params are of version {version}, known are {self.oldest} to {self.version}"
            )
        for step in range(version, self.version):
            params = self.upgrades[step](params)
        return params

    @property
    def run_limit_interval(self) -> timedelta | None:
        return None if self.run_limit is None else timedelta(seconds=self.run_limit)

    def validate(self, params: Any, *, own_checks: bool = True) -> BaseModel:
        """Params as the kind's model. Raises InvalidParams naming the first wrong field, its value shortened away.

        Without `own_checks` its line is fit to be stored: what the kind's own validator says may quote the value.
        """
        if isinstance(params, self.params):
            return params
        try:
            return self.params.model_validate(params, strict=False)
        except ValidationError as error:
            raise InvalidParams(f"{self.name}: {_first(error, own_checks=own_checks)}") from None

    def stored(self, params: str | None, version: int | None = None) -> BaseModel:
        """Params as the task carries them (JSON text), of ours or an older version. Raises InvalidParams, whose line is
        fit to be stored."""
        try:
            if version is not None and version != self.version:
                return self.params.model_validate_json(json.dumps(self.upgraded(json.loads(params or "{}"), version)))
            return self.params.model_validate_json(params or "{}")
        except ValidationError as error:
            raise InvalidParams(f"{self.name}: {_first(error, own_checks=False)}") from None


def _first(error: ValidationError, *, own_checks: bool = True) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    place = shortened(".".join(str(part) for part in errors[0]["loc"]) or "params", 120)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    # What a kind's own validator says may quote the value: fine for who has just sent it, not for the row.
    quoting = errors[0]["type"] in ("value_error", "assertion_error") and not own_checks
    said = "refused by the kind's own check" if quoting else errors[0]["msg"]
    return f"{place}: {shortened(said, 120)}{more}"


Body = Callable[["Attempt", Any], Any]


@dataclass(frozen=True)
class Kind:
    """A spec with its body. Calling it calls the body: handy in tests."""

    spec: KindSpec
    body: Body

    def __call__(self, attempt: Attempt, params: Any) -> Any:
        return self.body(attempt, params)


def kind(spec: KindSpec | str, **options: Any) -> Callable[[Body], Kind]:
    """Declare a kind: `@kind("catalog.export", params=Export, queue="bulk")`, or `@kind(SPEC)` for a shared spec."""
    if isinstance(spec, KindSpec) and options:
        raise InvalidKind(f"kind {spec.name}: options belong to its spec")
    made = spec if isinstance(spec, KindSpec) else KindSpec(spec, **options)
    return lambda body: Kind(made, body)
