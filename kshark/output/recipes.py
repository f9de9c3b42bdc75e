"""Recipes: how a client puts a rule to the test that no request has tested so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kshark.analysis.rules import BOOK
from kshark.output.entries import conversation_lines, facts_lines
from kshark.output.spans import CODE, DIM, PLAIN, Line


def recipe_lines(codes: Sequence[str]) -> Iterator[Line]:
    """Return for each rule what it asks for, what provokes it, and its right and its wrong requests."""
    for code in codes:
        rule = BOOK.by_code[code]
        yield [(code, CODE), (f"  rule {rule.number}", DIM)]
        yield from facts_lines(("must be", rule.must or rule.text), ("test it by", rule.provoked_by))
        if rule.wrong:
            yield from conversation_lines(rule)
        else:
            yield [(f"no example: kshark explain {code}", PLAIN)]
        yield []
