"""Explanations: findings in the time and place of an incident that its row explains or excuses."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kshark import limits
from kshark.analysis.rules.rule import Rule, Verdict
from kshark.endpoints import host_of
from kshark.incidents.incident import Incident, Where
from kshark.incidents.watchers import ROWS
from kshark.model import Finding, Witness

#: Codes of findings that an incident may excuse: they are not certain before the capture ends.
EXCUSABLE: Final = frozenset(code for row in ROWS for code in row.excuses)
#: Codes of findings that an incident may explain or excuse.
EXPLAINABLE: Final = EXCUSABLE.union(*(row.explains for row in ROWS))
#: Why a finding is a note: an incident excuses it.
EVENT: Final = "event"
_END: Final = 1 << 62
_NETWORK: Final = ("network",)
_NETWORKS: Final = ("network", "unknown")
_INCIDENTS: Final = frozenset(row.code for row in ROWS)


class _Explanation(Struct, frozen=True):
    """An incident, from packet to packet."""

    since: int
    until: int
    row: Rule
    where: Where
    verdict: Verdict
    because: str | None

    def fits(self, finding: Finding, first: int) -> bool:
        """True if the finding, whose evidence begins with packet `first`, is in its time and place.

        The network is no explanation for an incident of which another party is proved to be the cause.
        """
        where = self.where
        return (
            self.until >= first
            and (finding.code not in _INCIDENTS or self.row.blame != _NETWORK or finding.blame in _NETWORKS)
            and (where.brokers is None or finding.broker in where.brokers)
            and (where.flows is None or finding.flow in where.flows)
            and (where.hosts is None or not finding.client or host_of(finding.client) in where.hosts)
            and where.client_id in (None, finding.client_id)
            and where.group_id in (None, finding.group_id)
            and where.member_id in (None, finding.member_id)
            and (where.topic_ids is None or finding.topic_id in where.topic_ids)
            and where.partition in (None, finding.partition)
        )


class Explanations:
    """The incidents of a capture that explain findings: limits.INCIDENTS for each code of a finding, the first ones."""

    def __init__(self) -> None:
        self._by_code: defaultdict[str, list[_Explanation]] = defaultdict(list)
        #: By code, the highest last packet of the explanations up to each, as far as computed.
        self._reach: dict[str, list[int]] = {}

    def add(self, incident: Incident, finding: Finding) -> None:
        """Add an incident, with its finding, which it does not explain."""
        row, until = incident.row, _END if incident.until is None else incident.until.packet
        explanation = _Explanation(
            incident.since.packet, until, row, incident.where, finding.verdict, finding.unknown_because
        )
        for code in dict.fromkeys((*row.explains, *row.excuses)):
            if len(self._by_code[code]) < limits.INCIDENTS:
                self._by_code[code].append(explanation)
                self._reach.pop(code, None)

    def explained(self, finding: Finding) -> Finding:
        """Return the finding with the incident that explains it, if there is one: the last one that began before it.

        What explains an incident may also have begun while that lasted.

        An excused violation or unknown becomes a note, or stays unknown if the incident itself is not proved.
        """
        explanation = self._of(finding) if finding.code in self._by_code else None
        if explanation is None:
            return finding
        explained = replace(finding, event_code=explanation.row.code, event_packet=explanation.since)
        if finding.code not in explanation.row.excuses or finding.verdict == "note":
            return explained
        if explanation.verdict == "unknown":
            because = finding.unknown_because or explanation.because
            return replace(explained, verdict="unknown", severity="warn", blame="unknown", unknown_because=because)
        return replace(explained, verdict="note", severity="note", blame="unknown", unknown_because=EVENT)

    def _of(self, finding: Finding) -> _Explanation | None:
        explanations, reach = self._by_code[finding.code], self._reach.get(finding.code)
        if reach is None:
            explanations.sort(key=lambda it: it.since)
            reach = self._reach[finding.code] = []
            for explanation in explanations:
                reach.append(max(explanation.until, reach[-1] if reach else 0))
        first = min([finding.packet, *(packet for packet in map(_first, finding.witness) if packet is not None)])
        last = finding.packet
        if finding.code in _INCIDENTS:
            is_lasting = finding.until_packet is None and not isinstance(finding.until_ns, int)
            last = _END if is_lasting else max(last, finding.until_packet or 0)
        at = bisect_right(explanations, last, key=lambda it: it.since)
        while at and reach[at - 1] >= first:
            at -= 1
            if explanations[at].fits(finding, first):
                return explanations[at]
        return None


def _first(witness: Witness) -> int | None:
    """Return the first packet of a piece of evidence."""
    packets = witness.request_packet, witness.response_packet, witness.packet
    return min((packet for packet in packets if packet is not None), default=None)
