"""What the environment may say, and what a mistake in it is called."""

from pathlib import Path

import pytest

from tenure import settings
from tenure.cli.frame import connected
from tenure.model.errors import InvalidSettings

REST = "user:p%40ss@db.example:5432/tenure?sslmode=require"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in settings.Settings.model_fields:
        monkeypatch.delenv(f"TENURE_{name.upper()}", raising=False)
    monkeypatch.setenv("TENURE_HOME", str(tmp_path))


@pytest.mark.parametrize("scheme", ["postgresql+psycopg2://", "postgresql://", "postgres://"])
def test_the_driver_is_named_in_a_url_that_names_none(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", scheme + REST)
    assert settings.load().session_url == f"postgresql+psycopg2://{REST}"


@pytest.mark.parametrize("name", ["TENURE_DATABASE_URL", "TENURE_DIRECT_URL"])
@pytest.mark.parametrize("url", ["nonsense", "mysql://u:hunter2@h/d", "postgresql+asyncpg://u:hunter2@h/d"])
def test_another_url_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(InvalidSettings) as raised:
        settings.load()
    assert str(raised.value) == f"{name} must start with postgresql+psycopg2:// (or postgresql://)"


def test_a_url_that_cannot_be_read_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_DIRECT_URL", "postgresql://u:hunter2@h:port/d")
    with (
        pytest.raises(InvalidSettings, match="TENURE_DIRECT_URL cannot be read"),
        connected(settings.load().session_url),
    ):
        pass


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "DIRECT_URL", "BROKER_URL", "HTTP_PORT", "LEASE_SECONDS", "ADOPT_QUEUES"):
        monkeypatch.setenv(f"TENURE_{name}", "")
    found = settings.load()
    assert (found.database_url, found.http_port, found.lease_seconds) == (None, None, 30.0)
    assert found.foreign_queues == ("celery",)


def test_a_single_comma_is_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_ADOPT_QUEUES", ",")
    assert settings.load().foreign_queues == ()


def test_a_home_with_stopped_servers_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="is not set: set it, or start embedded servers"):
        _ = settings.load().client_url
    (tmp_path / "postgres").mkdir()
    with pytest.raises(InvalidSettings, match="are not running: start them with `tenure up`"):
        _ = settings.load().client_url
