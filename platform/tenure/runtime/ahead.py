"""Reading ahead: the next page is fetched by another thread while this one commits. Never for writes: they are fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, Protocol, TypeVar

from tenure.runtime.masking import block_signals

P = ParamSpec("P")
T = TypeVar("T", covariant=True)


class Ahead(Protocol):
    """Starts a call in the other thread; `.result()` of the answer waits for it, and raises what it raised."""

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...


@contextmanager
def reading_ahead() -> Iterator[Ahead]:
    """One thread, one call at a time; left only once it is idle, so that its connection may be closed after it."""
    with ThreadPoolExecutor(1, thread_name_prefix="tenure-ahead", initializer=block_signals) as pool:

        def ahead(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return pool.submit(function, *args, **kwargs)

        yield ahead
