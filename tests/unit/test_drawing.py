"""The page of states is what the code draws, and the drawing is whole."""

import re
from pathlib import Path

import pytest

from tenure.model.drawing import main, page
from tenure.model.states import TERMINAL, VERBS, State

PAGE = Path(__file__).parents[2] / "docs" / "state-machines.md"


def test_the_page_of_states_is_what_the_code_draws() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_reached_and_only_terminal_ones_end(state: State) -> None:
    assert re.search(rf"--> {state}: ", page())
    assert (f"    {state} --> [*]\n" in page()) == (state in TERMINAL)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_no_edge_leaves_a_terminal_state(state: State) -> None:
    assert re.findall(rf"^    {state} --> (.*)$", page(), re.MULTILINE) == ["[*]"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_drawn_and_listed(verb: str) -> None:
    assert re.search(rf"-->.*: .*\b{verb}\b", page())
    assert f"| `{verb}` |" in page()


def test_without_a_file_the_command_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "FILE" in capsys.readouterr().err


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
