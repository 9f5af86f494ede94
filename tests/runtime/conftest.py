"""Executors of one test, closed with it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.model.kinds import Kind
from tests.support.databases import Database
from tests.support.executors import Bench


@pytest.fixture
def make_bench(database: Database) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*kinds: Kind, **options: Any) -> Bench:
        made.append(Bench(database, *kinds, **options))
        return made[-1]

    yield make
    for bench in made:
        bench.close()
