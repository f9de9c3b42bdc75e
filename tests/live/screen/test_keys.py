"""Bytes of a keyboard."""

from __future__ import annotations

import pytest

from kshark.live.screen.keys import Keys


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"/ab\r", ["/", "a", "b", "enter"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["pageup", "pagedown", "home", "end", "home", "end"]),
        (b"\t\x7f\x08\n", ["tab", "backspace", "backspace", "enter"]),
        ("ä名".encode(), ["ä", "名"]),
        (b"\x1bx", ["esc", "x"]),
        (b"\x1b\x1b[A", ["esc", "up"]),
        (b"\x1b[200~\x1b[3;5~\x1b[?1;2cq", ["q"]),  # pasting, keys without a name, an answer of the terminal
        (b"\x00\x01\x1c\xff\xfe", []),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    whole = Keys()
    assert whole.feed(data) == keys
    assert not whole.waits


@pytest.mark.parametrize("data", [b"\x1b[A", b"\x1bOB", b"\x1b[5~", "名".encode(), b"\x1b[1;5A"])
def test_keys_in_parts_are_the_same(data: bytes) -> None:
    expected = Keys().feed(data)
    parts = Keys()
    assert [key for at in range(len(data)) for key in parts.feed(data[at : at + 1])] == expected


def test_esc_is_a_key_if_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.waits
    assert keys.settle() == ["esc"]
    assert not keys.waits
    assert keys.feed(b"[A") == ["[", "A"]
