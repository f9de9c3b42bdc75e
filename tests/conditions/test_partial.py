"""What can be asked where only some fields are to be had: more may hold to it, none less."""

from __future__ import annotations

import pytest

from kshark.conditions import ALWAYS, NEVER, Condition, F, any_of, by_version, size
from kshark.conditions.partial import widened

HAS = ("epoch", "error")
OPENS, REFUSED, LONG = F("epoch") == 0, F("error") != 0, F("wait") > 500
LISTS = any_of("topics", size("partitions") > 0)


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        (OPENS, OPENS),
        (LONG, ALWAYS),
        (LISTS, F("lists").is_true()),
        (any_of("topics", size("partitions") > 1), ALWAYS),
        (OPENS & LONG, OPENS & ALWAYS),
        (OPENS | LONG, OPENS | ALWAYS),
        (~OPENS, ~OPENS),
        (~LONG, ALWAYS),
        (~(OPENS & LONG), ALWAYS),
        (~(OPENS & LISTS), ~(OPENS & F("lists").is_true())),
        (F("epoch") == F("wait"), ALWAYS),
        (by_version({"0-1": OPENS, "2+": LONG}), by_version({"0-1": OPENS, "2+": ALWAYS})),
        (~by_version({"0-1": OPENS}), ALWAYS),
        (NEVER, NEVER),
    ],
    ids=repr,
)
def test_what_is_asked_of_rows_that_have_some_fields(condition: Condition, asked: Condition) -> None:
    assert widened(condition, HAS, {LISTS: F("lists").is_true()}) == asked
