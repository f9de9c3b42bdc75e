"""Findings of verdicts, and their counts."""

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

SEVERITY: Final[dict[str, Literal["error", "warn", "note"]]] = {
    "violation": "error",
    "unknown": "warn",
    "note": "note",
}


def finding_of(reported: Verdict) -> Finding:
    """Return the finding of a verdict."""
    rule, argument, (verdict, because), *_ = reported
    about = argument.witness[-1]
    position = argument.position or _position(rule, argument, about)
    accused: Blame = argument.blame or rule.blame[0] if verdict == "violation" else "unknown"
    topic_id, partition = argument.partition or (None, None)
    first_offset, last_offset = argument.offsets or (None, None)
    flow = position.connection.flow
    return Finding(
        code=rule.code,
        rule=rule.number,
        severity=SEVERITY[verdict or "unknown"],
        verdict=verdict,  # type: ignore[arg-type]
        blame=accused,
        time_ns=position.time_ns,
        packet=position.packet,
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
        software=position.connection.flow.software,
        first_offset=first_offset,
        last_offset=last_offset,
        proxy=flow.proxy,
    )


def _position(rule: Rule, argument: Argument, about: Call) -> Position:
    """Return the packet of a finding. An explanation of a refusal stands at the answer, whatever the row says."""
    if about.answer is None or (rule.at == "request" and argument.cause is None):
        return Position(about.connection, about.packet, about.time_ns)
    return Position(about.connection, about.answer.packet, about.answer.time_ns)


def _witness(calls: Iterable[Call], ends: Sequence[End]) -> list[Witness]:
    """Return each exchange once, in the given order, the subject last; before it the ends of connections."""
    *before, about = (call.witness for call in {id(call): call for call in calls}.values())
    return [*before, *(Witness(end.flow, None, None, None, end.packet, "closed") for end in ends), about]


class Tally:
    """The counts of the last line of `kshark check`."""

    def __init__(self) -> None:
        self.exchanges = self.gaps = self.sessions = 0
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    def begun(self) -> None:
        """Count a share session."""
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
    """Sort findings as `kshark check` does for files: by packet, findings with a cause first. Every engine gives the
    same order."""
    return sorted(
        findings, key=lambda it: (it.packet, it.cause is None, it.code, it.flow, it.member_id or "", it.argument)
    )
