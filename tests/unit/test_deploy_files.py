"""compose.yaml and Dockerfile, as far as they can be judged without an engine that runs them."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tenure.cli.main import app
from tenure.runtime.health import STALE_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("tenure:"))
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration[:-1])


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2] for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_the_services_are_the_servers_a_migration_and_three_processes() -> None:
    assert sorted(SERVICES) == ["beat", "flower", "migrate", "postgres", "valkey", "worker"]
    assert OURS == ["beat", "flower", "migrate", "worker"]
    assert SERVICES["postgres"]["image"] == "postgres:18"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_commands_and_probes_are_in_exec_form(name: str) -> None:
    service = SERVICES[name]
    assert isinstance(service.get("command", []), list)
    probe = service.get("healthcheck", {}).get("test", ["CMD"])
    assert isinstance(probe, list)
    assert probe[0] == "CMD"


@pytest.mark.parametrize("name", OURS)
def test_every_command_and_its_options_exist(name: str) -> None:
    command, *rest = SERVICES[name]["command"]
    known = {option for parameter in COMMANDS[command].params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known
    assert "entrypoint" not in SERVICES[name]


@pytest.mark.parametrize("role", ["worker", "beat"])
def test_a_role_is_probed_every_30_s_after_the_time_its_health_file_may_be_old(role: str) -> None:
    check = SERVICES[role]["healthcheck"]
    assert check["test"] == ["CMD", "tenure", "health", "--role", role]
    assert seconds(check["interval"]) == 30
    assert seconds(check["start_period"]) == STALE_SECONDS[role]
    assert "--role" in {option for parameter in COMMANDS["health"].params for option in parameter.opts}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_process_has_30_s_to_leave(name: str) -> None:
    if name != "migrate":
        assert seconds(SERVICES[name]["stop_grace_period"]) == 30


@pytest.mark.parametrize("name", ["worker", "beat", "flower"])
def test_a_process_starts_after_the_migration_has_succeeded(name: str) -> None:
    after = SERVICES[name]["depends_on"]
    assert after["migrate"] == {"condition": "service_completed_successfully"}
    assert after["valkey"] == {"condition": "service_healthy"}
    assert SERVICES["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert SERVICES["migrate"]["restart"] == "no"


def test_no_port_of_the_host_is_opened() -> None:
    assert not [name for name, service in SERVICES.items() if "ports" in service or "network_mode" in service]


def test_images_are_plain_names() -> None:
    bases = [line.split()[0] for line in instructions("FROM")]
    for image in [*bases, *(service["image"] for service in SERVICES.values())]:
        first, slash, _ = image.partition("/")
        assert not slash or not re.search(r"[.:]", first), f"{image} names a host"
        assert ":" in image
    assert "://" not in DOCKERFILE


def test_the_image_runs_tenure_as_an_ordinary_user() -> None:
    assert instructions("ENTRYPOINT") == ['["tenure"]']
    assert instructions("CMD") == ['["--help"]']
    assert instructions("USER") == ["tenure"]
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nENTRYPOINT ")


def test_the_image_holds_no_secret_and_no_address() -> None:
    assert instructions("ARG") == []
    (variables,) = instructions("ENV")
    names = {word.partition("=")[0] for word in variables.split()}
    assert names == {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "TENURE_HOME"}


def test_secrets_of_compose_come_from_variables() -> None:
    for name in OURS:
        assert "${POSTGRES_PASSWORD:-local}@postgres:5432/" in SERVICES[name]["environment"]["TENURE_DATABASE_URL"]
    assert SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"] is None


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
