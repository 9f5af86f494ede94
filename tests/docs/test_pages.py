"""What the pages name exists: links, make targets, commands, settings, tests, dependencies; and what they quote is the code."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from tenure.cli.main import app
from tenure.settings import Settings
from tests.docs.pages import ROOT, anchors, links, name, pages

README = ROOT / "README.md"
_QUOTED = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"(?:`|/bin/)tenure ((?:[a-z]+(?:-[a-z]+)* ?)+)")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{name(page)} links to {link}"
        assert not anchor or anchor in anchors(found), f"{name(page)} links to {link}: no such heading"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_command_named_exists(page: Path) -> None:
    root: Any = typer.main.get_command(app)
    for words in _COMMAND.findall(page.read_text(encoding="utf-8")):
        command = root
        for word in words.split():
            if not hasattr(command, "get_command"):
                break  # an argument
            command = command.get_command(command.make_context("tenure", [], resilient_parsing=True), word)
            assert command is not None, f"{name(page)} names `tenure {words.strip()}`"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_setting_named_exists(page: Path) -> None:
    named = set(re.findall(r"`TENURE_([A-Z_]+)", page.read_text(encoding="utf-8")))
    assert named <= {field.upper() for field in Settings.model_fields}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_test_named_exists(page: Path) -> None:
    for file, function in _TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {function}(" in (ROOT / file).read_text(), f"{name(page)} names {file}::{function}"


def test_the_readme_quotes_the_examples_as_they_are() -> None:
    quoted = _QUOTED.findall(README.read_text(encoding="utf-8"))
    assert {file for file, _ in quoted} == {
        f"docs/examples/{one}.py" for one in ("hello_kind", "hello_app", "celery_app")
    }
    for file, code in quoted:
        assert code in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["testing", "submitting"])
def test_a_page_quotes_its_example_as_it_is(page: str) -> None:
    ((file, code),) = _QUOTED.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert code in (ROOT / file).read_text(encoding="utf-8")


def test_the_page_of_settings_is_what_the_code_says(tmp_path: Path) -> None:
    made = tmp_path / "settings.md"
    subprocess.run([sys.executable, ROOT / "tools" / "settings_page.py", made], check=True)
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), "make docs"


def test_every_dependency_is_argued_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    page = (ROOT / "docs" / "adr" / "0007-dependencies.md").read_text(encoding="utf-8")
    for one in wanted:
        package = re.split(r"[\[<>=]", one)[0]
        assert re.search(rf"(?<![\w-]){package}(?![\w-])", page), f"0007 gives no reason for {package}"


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    folder = ROOT / "docs" / "adr"
    listed = links(folder / "README.md")
    for page in sorted(folder.glob("0*.md")):
        assert page.name in listed
        headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], page.name


def test_the_readme_leads_to_every_page() -> None:
    led = {link.partition("#")[0] for link in links(README)}
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= led


def test_the_words_of_the_glossary_are_in_order_and_said_once() -> None:
    words = re.findall(
        r"^\| \*\*([^*]+)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert words == sorted(set(words), key=lambda word: re.sub("[^a-z]", " ", word))
