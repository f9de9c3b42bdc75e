"""What `kshark explain` says is what the code does: findings held against the rows of their rules."""

from __future__ import annotations

from collections.abc import Iterable

from kshark.analysis import RULES, Rule
from kshark.model import Finding

ROWS = {rule.code: rule for rule in RULES}


def as_the_rows_say(found: Iterable[Finding]) -> list[Finding]:
    """The same findings; fails where one says what its row does not."""
    kept = list(found)
    for it in kept:
        rule = ROWS[it.code]
        assert it.rule == rule.number, it
        assert it.verdict in rule.verdicts, it
        assert it.cause is None or it.cause in rule.causes, it
        doubtful = len(rule.blame) > 1  # one of them, the capture does not tell which
        assert it.blame in (
            rule.blame if it.verdict == "violation" and not (doubtful and it.blame == "unknown") else ("unknown",)
        ), it
        assert it.packet in places(rule, it), it
    return kept


def places(rule: Rule, it: Finding) -> set[int | None]:
    """Where it may stand. What explains a refusal stands at the answer, whatever the row says."""
    about = it.witness[-1]
    if rule.at == "end":
        return {each.packet for each in it.witness if each.event == "closed"} | {about.request_packet}
    if rule.at == "request" and it.cause is None:
        return {each.request_packet for each in it.witness}
    return {about.response_packet or about.request_packet or about.packet}
