"""Commands that other packages add. The packages are real ones, on the path of a real process."""

from pathlib import Path

import pytest

from tests.support.command import ROOT, Tenure

_MODULE = """
import typer
app = typer.Typer()

@app.command()
def only() -> None:
    "Say hello."
    print("hello from a group")

def plain(name: str = "you") -> None:
    "Greet."
    print(f"hello {name}")

def refused() -> None:
    "Refuse."
    from tenure.model.errors import Refused
    raise Refused("not today: come back tomorrow")
"""
_ENTRIES = """[tenure.commands]
group = greeting:app
plain = greeting:plain
refused = greeting:refused
broken = no_such_module:app
tasks = greeting:plain
"""


@pytest.fixture
def tenure(tmp_path: Path) -> Tenure:
    (tmp_path / "greeting.py").write_text(_MODULE)
    information = tmp_path / "greeting-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(_ENTRIES)
    return Tenure(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")


def test_a_plugin_may_be_a_group_of_commands(tenure: Tenure) -> None:
    assert tenure("group", "only").stdout == "hello from a group\n"


def test_a_plugin_may_be_a_function(tenure: Tenure) -> None:
    assert tenure("plain", "--name", "Ada").stdout == "hello Ada\n"


def test_a_refusal_of_a_plugin_is_one_line(tenure: Tenure) -> None:
    assert tenure.refusal(1, "refused") == "tenure: not today: come back tomorrow"


def test_a_broken_plugin_is_one_line_and_spares_the_others(tenure: Tenure) -> None:
    helped = tenure("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "Of greeting: see `tenure plain --help`." in helped.stdout
    assert "cannot be loaded: ModuleNotFoundError" in tenure.refusal(1, "broken")


def test_a_plugin_cannot_replace_a_command_of_ours(tenure: Tenure) -> None:
    assert "Say why a task does not run" in tenure("tasks", "--help").stdout


def test_help_imports_no_plugin(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text("print('imported')")
    assert "imported" not in tenure("--help").stdout
    assert "imported" in tenure("plain").stdout


@pytest.mark.parametrize(
    "words", [("tasks",), ("retention",), ("records",), ("records", "schema"), ("records", "find")]
)
def test_help_looks_the_same_in_every_group(tenure: Tenure, words: tuple[str, ...]) -> None:
    assert "╭─ Options ─" in tenure(*words, "--help").stdout
