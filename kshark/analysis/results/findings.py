"""Findings from judged arguments, and what there is to count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from kshark.analysis.facts.argument import Argument, Position
from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import Call
from kshark.analysis.rules.rule import Rule
from kshark.analysis.runners.verdict import Verdict
from kshark.anomaly import Blame
from kshark.model import Finding, Witness

_SEVERITY: Final[dict[str, Literal["error", "warn", "note"]]] = {
    "violation": "error",
    "unknown": "warn",
    "note": "note",
}


def finding_of(judged: Verdict) -> Finding:
    """The JSON line of an argument."""
    rule, argument, (verdict, because), *_ = judged
    about = argument.witness[-1]
    place = argument.position or _place(rule, argument, about)
    accused: Blame = argument.blame or rule.blame[0] if verdict == "violation" else "unknown"
    topic_id, partition = argument.partition or (None, None)
    first_offset, last_offset = argument.offsets or (None, None)
    flow = place.connection.flow
    return Finding(
        code=rule.code,
        rule=rule.number,
        severity=_SEVERITY[verdict or "unknown"],
        verdict=verdict,  # type: ignore[arg-type]
        blame=accused,
        time_ns=place.time_ns,
        packet=place.packet,
        flow=flow.id,
        broker=flow.broker,
        client=flow.client,
        group_id=about.group_id,
        member_id=about.member_id,
        topic_id=topic_id,
        partition=partition,
        cause=argument.cause,
        witness=_witness(argument.witness, argument.ends),
        argument=argument.sentence,
        unknown_because=because,
        client_id=about.client_id,
        software=place.connection.software,
        first_offset=first_offset,
        last_offset=last_offset,
    )


def _place(rule: Rule, argument: Argument, about: Call) -> Position:
    """What explains a refusal stands at the answer, whatever the row says."""
    if about.answer is None or (rule.at == "request" and argument.cause is None):
        return Position(about.connection, about.packet, about.time_ns)
    return Position(about.connection, about.answer.packet, about.answer.time_ns)


def _witness(calls: Iterable[Call], ends: Sequence[End]) -> list[Witness]:
    """Each exchange once, in the order given, the one it is about last; before that the ends of connections."""
    *before, about = (call.witness for call in {id(call): call for call in calls}.values())
    return [*before, *(Witness(end.flow, None, None, None, end.packet, "closed") for end in ends), about]


class Tally:
    """The last line of `kshark check`."""

    def __init__(self) -> None:
        self.exchanges = self.gaps = self.sessions = 0
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    def begun(self) -> None:
        """A share session more."""
        self.sessions += 1

    def add(self, finding: Finding) -> None:
        self.verdicts[finding.verdict] += 1
        self.codes[finding.code] += 1

    def summary(self) -> dict[str, Any]:
        return {
            "sessions": self.sessions,
            "exchanges": self.exchanges,
            "violations": self.verdicts["violation"],
            "unknown": self.verdicts["unknown"],
            "notes": self.verdicts["note"],
            "gaps": self.gaps,
            "by_code": dict(sorted(self.codes.items())),
        }


def in_packet_order(findings: Iterable[Finding]) -> list[Finding]:
    """As `kshark check` shows findings of files: by packet, the one with a cause first; the same order from every
    engine."""
    return sorted(
        findings, key=lambda it: (it.packet, it.cause is None, it.code, it.flow, it.member_id or "", it.argument)
    )
