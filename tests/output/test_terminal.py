"""What a terminal sees, and what a pipe does not."""

from __future__ import annotations

import io

import pytest

from kshark.output.sink import Sink
from kshark.output.spans import ERROR, PLAIN, folded, plain
from kshark.output.text_table import Cell, Column, table

LINE = [("123 INVALID_SHARE_SESSION_EPOCH", ERROR), (" in 大 words", PLAIN)]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _sixteen_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def printed(stream: io.StringIO) -> str:
    Sink(stream).lines([LINE], crop=True)
    return stream.getvalue()


def test_a_pipe_gets_the_bare_text() -> None:
    assert printed(io.StringIO()) == "123 INVALID_SHARE_SESSION_EPOCH in 大 words\n"


def test_a_terminal_gets_colours_and_whole_lines() -> None:
    assert printed(Screen()) == "\x1b[1;31m123 INVALID_SHARE_SESSION_EPOCH\x1b[0m in 大 w…\n"


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(Screen()) == "123 INVALID_SHARE_SESSION_EPOCH in 大 w…\n"


COLUMNS = [Column("API", elastic=8), Column("requests", right=True), Column("gaps", right=True)]
ROWS: list[list[Cell]] = [["ReadShareGroupStateSummary 大 and on", "1,204", ""], ["ShareFetch", [("7", ERROR)], ""]]


def drawn(width: int | None, indent: int = 0) -> list[str]:
    return [plain(line) for line in table(COLUMNS, ROWS, width, indent)]


def test_columns_stand_under_each_other_and_an_empty_one_is_left_out() -> None:
    assert drawn(None) == [
        "API                                   requests",
        "ReadShareGroupStateSummary 大 and on     1,204",
        "ShareFetch                                   7",
    ]


def test_an_empty_cell_is_as_wide_as_its_column_wherever_that_is_aligned() -> None:
    columns = (Column("a"), Column("b", right=True), Column("c"))
    rows: list[list[Cell]] = [["1", "", "x"], ["2", "1234", "y"]]
    assert [plain(line) for line in table(columns, rows, None)] == ["a     b  c", "1        x", "2  1234  y"]


def test_the_elastic_column_gives_way_on_a_narrow_terminal() -> None:
    assert drawn(34, indent=2) == [
        "  API                     requests",
        "  ReadShareGroupStateSu…     1,204",
        "  ShareFetch                     7",
    ]


def test_then_columns_are_left_out() -> None:
    columns = [Column("group"), Column("conns", right=True, drop=1), Column("requests", right=True, drop=2)]
    rows: list[list[Cell]] = [["billing", "3", "1,204"]]
    assert [[plain(line) for line in table(columns, rows, width)][1] for width in (40, 18, 9)] == [
        "billing      3     1,204",
        "billing     1,204",
        "billing",
    ]


def test_long_lines_are_folded_between_words() -> None:
    line = [("39 violations", ERROR), (" in 13 sessions, 1 unknown", PLAIN)]
    assert [plain(part) for part in folded(line, 20, 2)] == ["39 violations in 13", "  sessions, 1", "  unknown"]
    assert [plain(part) for part in folded(line, None)] == ["39 violations in 13 sessions, 1 unknown"]
    assert [plain(part) for part in folded([("x" * 30, PLAIN)], 20, 2)] == ["x" * 30]


def test_a_terminal_may_be_too_narrow_for_anything() -> None:
    assert drawn(3)[1] == "ReadSha…     1,204"


def test_markup_in_cells_is_text() -> None:
    assert plain([*table([Column("a")], [["[red]x[/red]"]], None)][1]) == "[red]x[/red]"


def test_columns_for_which_there_is_no_room_are_named() -> None:
    columns = (
        Column("group"),
        Column("broker", drop=2),
        Column("lasted", right=True, drop=1),
        Column("nothing", drop=1),
    )
    rows: list[list[Cell]] = [["g", "127.0.0.1:20092", "483 ms", ""]]
    assert [plain(line) for line in table(columns, rows, 24)] == [
        "group  broker",
        "g      127.0.0.1:20092",
        "no room for lasted: use",
        "  a wider terminal or a",
        "  pipe for all columns",
    ]
    assert len([*table(columns, rows, None)]) == len([*table(columns, rows, 80)]) == 2
