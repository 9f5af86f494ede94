"""What a table shows when the terminal is narrow."""

import io
import re
import sys
from uuid import UUID

import pytest

from tenure.cli.output import print_table
from tenure.cli.tables import fitted

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
COLUMNS = ("ID", "Kind", "State", "Created", "#Attempt", "Error")
ROW = (
    ID,
    "catalog.export.of.everything",
    "failed (worker_lost)",
    "2026-01-01 12:00:00",
    "3/3",
    "the worker was lost " * 9,
)
GIVES_WAY = {"Created": 0, "Attempt": 0, "Kind": 8}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, width: int) -> list[str]:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    print_table(COLUMNS, [ROW], empty="none", gives_way=GIVES_WAY)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in stream.getvalue().splitlines()]


def test_eighty_columns_show_id_state_and_the_start_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    head, line = printed(monkeypatch, Terminal(), 80)
    assert head.split() == ["ID", "State", "Error"]
    assert line == f"{ID}  failed (worker_lost)  the worker was lost…"
    assert len(line) <= 80


def test_a_wide_terminal_cuts_only_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    head, line = printed(monkeypatch, Terminal(), 160)
    assert head.split() == ["ID", "Kind", "State", "Created", "Attempt", "Error"]
    assert "catalog.export.of.everything  failed (worker_lost)  2026-01-01 12:00:00" in line
    assert (len(line), line[-1]) == (160, "…")


def test_nothing_is_cut_where_stdout_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _, line = printed(monkeypatch, io.StringIO(), 40)
    assert all(str(cell).strip() in line for cell in ROW)


def test_a_column_that_must_stay_does_so_on_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _, line = printed(monkeypatch, Terminal(), 30)
    assert line.startswith(f"{ID}  failed (worker_lost)  the worker")


def test_a_column_is_cut_before_one_is_left_out() -> None:
    widths = {"ID": 36, "Kind": 28, "State": 9, "Created": 19, "Attempt": 7, "Error": 5}
    assert fitted(widths, GIVES_WAY, 104)["Kind"] == 18
    assert "Created" not in fitted(widths, GIVES_WAY | {"Kind": 28}, 104)
    assert fitted(widths, GIVES_WAY, None) == widths
