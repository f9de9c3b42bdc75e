"""The painter, before a small terminal."""

from __future__ import annotations

import io
import random

from kshark.live.screen.painter import ENTER, LEAVE, Painter
from kshark.output.spans import ERROR, PLAIN, Line, plain
from kshark.output.text import Terminal
from tests.live.screen.terminal import Screenful

SIZE = (20, 4)


def painter() -> Painter:
    return Painter(plain)


def rows(*texts: str) -> list[Line]:
    return [[(text, PLAIN)] for text in texts]


def test_a_frame_shows_the_lines() -> None:
    screen, paint = Screenful(*SIZE), painter()
    screen.feed(ENTER + paint.frame(rows("one", "two"), SIZE))
    assert screen.text == "one\ntwo\n\n\n"
    assert (screen.modes["1049"], screen.modes["25"], screen.modes["7"]) == (True, False, False)
    screen.feed(LEAVE)
    assert (screen.modes["1049"], screen.modes["25"], screen.modes["7"]) == (False, True, True)


def test_only_changed_lines_are_written() -> None:
    screen, paint = Screenful(*SIZE), painter()
    screen.feed(paint.frame(rows("one", "two", "three"), SIZE))
    before = screen.written
    screen.feed(paint.frame(rows("one", "zwei", "three"), SIZE))
    assert (screen.text, screen.written - before) == ("one\nzwei\nthree\n\n", 4)
    assert paint.frame(rows("one", "zwei", "three"), SIZE) == b""


def test_a_frame_is_shown_at_once() -> None:
    frame = painter().frame(rows("one"), SIZE)
    assert frame.startswith(b"\x1b[?2026h")
    assert frame.endswith(b"\x1b[?2026l")


def test_shorter_lines_leave_nothing_behind() -> None:
    screen, paint = Screenful(*SIZE), painter()
    screen.feed(paint.frame(rows("x" * 20, "long line"), SIZE))
    assert screen.text.splitlines()[0] == "x" * 20
    screen.feed(paint.frame(rows("short", ""), SIZE))
    assert screen.text == "short\n\n\n\n"


def test_after_a_resize_everything_is_painted() -> None:
    paint = painter()
    paint.frame(rows("one", "two"), SIZE)
    screen = Screenful(10, 2)
    screen.feed(paint.frame(rows("one", "two", "three"), (10, 2)))
    assert screen.text == "one\ntwo\n"


def test_a_forgotten_screen_is_painted_anew() -> None:
    screen, paint = Screenful(*SIZE), painter()
    first = paint.frame(rows("one"), SIZE)
    paint.forget()
    screen.feed(first + b"\x1b[1;1Hgarbage" + paint.frame(rows("one"), SIZE))
    assert screen.text == "one\n\n\n\n"


def test_any_sequence_of_frames_shows_the_last_one() -> None:
    chance = random.Random(7)
    for _ in range(50):
        screen, paint, shown = Screenful(*SIZE), painter(), [""]
        for _ in range(20):
            shown = ["".join(chance.choices("ab ", k=chance.randrange(20))) for _ in range(chance.randrange(5))]
            shown += [""] * (SIZE[1] - len(shown))
            screen.feed(paint.frame(rows(*shown), SIZE))
        assert screen.text == "\n".join(text.rstrip() for text in shown) + "\n"


def test_colours_end_with_their_line() -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal(Tty())
    screen = Screenful(*SIZE)
    screen.feed(Painter(terminal.paint).frame([[("red", ERROR), (" plain", PLAIN)]], SIZE))
    assert screen.text == "red plain\n\n\n\n"
