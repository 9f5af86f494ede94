"""What only the system tests need."""

from pathlib import Path

import pytest

from tests.support.homes import make_seed


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seed") / "home"
    make_seed(path)
    return path
