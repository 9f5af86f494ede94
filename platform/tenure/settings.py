"""Start-up settings: environment `TENURE_*`, validated once, each with unit, default and reason.

What may change while processes run lives in the table `service_settings` (see store/settings.py), not here.
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tenure.model.errors import InvalidSettings, shortened

PREFIX = "postgresql+psycopg2://"
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """All settings of one process; an empty variable counts as not set. `load()` turns a mistake into one clear line."""

    model_config = SettingsConfigDict(env_prefix="TENURE_", env_ignore_empty=True, extra="ignore", frozen=True)

    database_url: SecretStr | None = Field(
        None,
        description="URL for client verbs, postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE; may go through PgBouncer. "
        "postgresql:// and postgres:// are taken for the same.",
    )
    direct_url: SecretStr | None = Field(
        None,
        description="Unpooled URL for worker, beat, LISTEN, migrate: sessions are prepared and listened on. "
        "Forms as of database_url. Default: database_url.",
    )
    broker_url: SecretStr | None = Field(None, description="redis:// URL of the Celery broker.")
    home: Path = Field(
        Path(".tenure"), description="Embedded servers, health files. Default: .tenure in the working directory."
    )
    kinds: str = Field("", description="Comma-separated packages with kinds, beside the entry point tenure.kinds.")
    node: str = Field(
        "",
        description="Name of this node; a restart under the same name settles the old boot's leases. Default: tenure, at the host's name.",
    )
    services: str = Field(
        "dispatcher,reaper",
        description="Services the worker's main process runs, of dispatcher, reaper, scheduler and safety_net; beat runs the last three. "
        "All are safe in any number of processes. A single comma: none.",
    )

    adopt_queues: str = Field(
        "celery",
        description="Comma-separated queues that workers also consume, for Celery apps that know a kind's name but not its queue. "
        "Messages that are no kind go back to the queue, for the other apps that share it. A single comma: none.",
    )

    lease_seconds: Seconds = Field(
        30.0, description="s. How long a silent worker keeps its tasks: the time to recovery after SIGKILL."
    )
    renew_seconds: Seconds = Field(5.0, description="s. Below half the lease, so that one lost renewal costs nothing.")
    reap_seconds: Seconds = Field(
        1.0, description="s. Sweep for expired leases, due and late tasks: adds to the time to recovery."
    )
    watch_seconds: Seconds = Field(
        1.0, description="s. How often stop requests and deadlines are read; NOTIFY only makes it sooner."
    )
    crash_bound: int = Field(
        3, ge=1, description="Lost workers after which a task is `worker_lost` for good: poison must end."
    )
    params_bytes: int = Field(
        1024 * 1024, ge=1024, description="bytes. Larger params are refused at submit: the row is not a file store."
    )
    result_bytes: int = Field(
        1024 * 1024, ge=1024, description="bytes. Larger results fail the task: the row is not a file store."
    )
    run_on_tasks: int = Field(
        256, ge=1, description="Tasks one Celery message may run: a message must end for recycling and warm shutdown."
    )
    run_on_seconds: Seconds = Field(0.25, description="s. Same bound in time.")
    connect_seconds: Seconds = Field(
        300.0, description="s. How long a start waits for the database before it gives up."
    )
    http_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of /health and /metrics on 127.0.0.1; each process on a host needs its own. Default: none.",
    )
    concurrency: int = Field(2, ge=1, description="Child processes of `tenure worker`.")

    @field_validator("database_url", "direct_url")
    @classmethod
    def _with_driver(cls, url: SecretStr | None) -> SecretStr | None:
        """The forms that providers print, with the driver named: without one SQLAlchemy would choose another."""
        for scheme in ("postgresql://", "postgres://"):
            if url is not None and url.get_secret_value().startswith(scheme):
                return SecretStr(PREFIX + url.get_secret_value().removeprefix(scheme))
        return url

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.renew_seconds >= self.lease_seconds / 2:
            raise ValueError(
                f"renew_seconds {self.renew_seconds:g} must be below half of lease_seconds {self.lease_seconds:g}"
            )
        for name in ("database_url", "direct_url"):
            url: SecretStr | None = getattr(self, name)
            if url is not None and not url.get_secret_value().startswith(PREFIX):
                raise ValueError(f"TENURE_{name.upper()} must start with {PREFIX} (or postgresql://)")
        return self

    def _unset(self, variable: str) -> InvalidSettings:
        if any((self.home / name).exists() for name in ("postgres", "elsewhere")):
            return InvalidSettings(
                f"{variable} is not set, and the embedded servers of {shortened(self.home, 160)} are not running: "
                "start them with `tenure up`"
            )
        return InvalidSettings(f"{variable} is not set: set it, or start embedded servers with `tenure up`")

    @cached_property
    def client_url(self) -> str:
        if self.database_url is None:
            raise self._unset("TENURE_DATABASE_URL")
        return self.database_url.get_secret_value()

    @cached_property
    def session_url(self) -> str:
        """The URL for connections that keep session state (PREPARE, LISTEN)."""
        return self.direct_url.get_secret_value() if self.direct_url else self.client_url

    @cached_property
    def broker(self) -> str:
        if self.broker_url is None:
            raise self._unset("TENURE_BROKER_URL")
        return self.broker_url.get_secret_value()

    @cached_property
    def kind_packages(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.kinds.split(",") if name.strip())

    @cached_property
    def foreign_queues(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.adopt_queues.split(",") if name.strip())


def load() -> Settings:
    """Settings of this process. Raises InvalidSettings naming each wrong variable; values of secrets are never shown.

    Cheap to call: read anew only when a variable has changed.
    """
    return _read(tuple((name, value) for name, value in os.environ.items() if name[:7].upper() == "TENURE_"))


@lru_cache(maxsize=4)
def _read(_environment: tuple[tuple[str, str], ...]) -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        raise InvalidSettings("; ".join(_line(dict(e)) for e in error.errors(include_url=False))) from None


def _line(error: dict[str, object]) -> str:
    place = error["loc"]
    name = f"TENURE_{str(place[0]).upper()}: " if isinstance(place, tuple) and place else ""
    return name + shortened(str(error["msg"]).removeprefix("Value error, "), 160)
