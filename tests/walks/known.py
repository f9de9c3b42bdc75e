"""What is known to be said wrongly. Whoever mends it deletes its line: a line whose input is right fails its test, so the list shrinks."""

from __future__ import annotations

from collections.abc import Sequence

#: ==== KNOWN: delete a line when what it names is right ====
KNOWN = {
    "aimed S1 thinned",
    "aimed S2 thinned",
    "aimed S3 thinned",
    "aimed S4 thinned",
    "aimed S5 thinned",
    "aimed S6",
    "aimed, a sample",
    "aimed, every packet",
    "aimed-4.1.2 S1 thinned",
    "aimed-4.1.2 S2 thinned",
    "aimed-4.1.2 S3 thinned",
    "aimed-4.1.2 S4 thinned",
    "aimed-4.1.2 S5 thinned",
    "aimed-4.1.2 S6",
    "aimed-4.1.2 S8",
    "aimed-4.1.2 S8 thinned",
    "aimed-4.1.2, a sample",
    "aimed-4.1.2, every packet",
    "marks of walk-412-1",
    "marks of walk-wild-1",
    "thinned aimed-4.1.2-S7",
    "thinned aimed-S1",
    "thinned aimed-S2",
    "thinned aimed-S3",
    "thinned aimed-S4",
    "thinned aimed-S5-answer3",
    "thinned aimed-without-packet-217",
    "thinned aimed-without-packet-304",
    "thinned aimed-without-packet-467",
    "thinned walk-412-1-5-33-connections",
    "thinned walk-412-1-5-47-random",
    "thinned walk-wild-1-1-3-halfdirection",
    "violations of java-limit",
    "walk-412-1, a sample",
}


def assert_right(name: str, wrong: Sequence[object]) -> None:
    """Nothing is wrong, or it is known to be."""
    if name in KNOWN:
        assert wrong, f"{name}: nothing is wrong any more; delete its line in {__name__}"
    else:
        assert list(wrong) == [], name
