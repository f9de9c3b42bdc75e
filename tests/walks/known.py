"""What is known to be said wrongly. Whoever mends it deletes its line: a line whose input is right fails its test, so the list shrinks."""

from __future__ import annotations

from collections.abc import Sequence

#: ==== KNOWN: delete a line when what it names is right ====
KNOWN = {
    "thinned walk-412-1-5-33-connections",
    "thinned walk-wild-1-1-3-halfdirection",
    "walk-412-1, a sample",
}


def assert_right(name: str, wrong: Sequence[object]) -> None:
    if name in KNOWN:
        assert wrong, f"{name}: nothing is wrong any more; delete its line in {__name__}"
    else:
        assert list(wrong) == [], name
