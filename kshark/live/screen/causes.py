"""Findings, grouped by cause and member: what hurts first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.endpoints import host_of
from kshark.headlines import Sort, sort_of
from kshark.live.screen.rows import Cause, RowKey
from kshark.model import Finding
from kshark.output.catalogue import weight_of
from kshark.units import safe

#: A cause is recent for this time; then it comes after all recent ones.
RECENT_NS: Final = 300_000_000_000
_ORDER: Final = {"violation": 0, "note": 1, "unknown": 2}


class Causes:
    """Count findings by cause, party and member: the last limits.SCREEN_CAUSES of these."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[Sort, str, RowKey | None], Cause] = OrderedDict()

    def add(self, finding: Finding, key: RowKey | None) -> None:
        """Take a finding. `key`: the member that it is about."""
        who = party_of(finding)
        place = sort_of(finding)._replace(event=None), who, key
        cause = self._of.get(place)
        if cause is None:
            self._of[place] = Cause(finding, (who,), key, weight_of(finding.code), finding.time_ns, finding.time_ns)
            if len(self._of) > limits.SCREEN_CAUSES:
                self._of.popitem(last=False)
            return
        self._of.move_to_end(place)
        cause.count += 1
        _join(cause, finding, finding.time_ns, finding.time_ns)

    def listed(self) -> list[Cause]:
        """Return copies."""
        return [replace(cause) for cause in self._of.values()]


def lasting(finding: Finding, key: RowKey | None, now_ns: int) -> Cause:
    """Return an incident that lasts until now."""
    return Cause(finding, (party_of(finding),), key, weight_of(finding.code), finding.time_ns, now_ns, lasts=True)


def party_of(finding: Finding) -> str:
    """Return the client by its name or address; the broker if that is to blame, or if no client is known."""
    client = finding.client_id or host_of(finding.client)
    return f"broker {finding.broker}" if finding.blame == "broker" or not client else safe(client)


def by_hurt(causes: Iterable[Cause], now_ns: int) -> list[Cause]:
    """Join the causes of all parties, and sort them: incidents that last, recent ones, violations and notes, and what
    is not proved; by weight and number; last, notes about nobody in a group. Those with the most findings are named
    first.
    """
    joined: dict[tuple[Sort, bool], Cause] = {}
    for cause in sorted(causes, key=lambda cause: -cause.count):
        sort = sort_of(cause.finding)._replace(event=None), cause.lasts
        of = joined.get(sort)
        if of is None:
            joined[sort] = replace(cause)
            continue
        of.count += cause.count
        of.who = (*of.who, *(who for who in cause.who if who not in of.who))
        _join(of, cause.finding, cause.first_ns, cause.last_ns)
    return sorted(joined.values(), key=lambda cause: _rank(cause, now_ns))


def _join(cause: Cause, finding: Finding, first_ns: int, last_ns: int) -> None:
    if last_ns >= cause.last_ns:
        cause.finding, cause.last_ns = finding, last_ns
    cause.first_ns = min(cause.first_ns, first_ns)


def _rank(cause: Cause, now_ns: int) -> tuple[bool, bool, bool, bool, int, int, int]:
    is_old = now_ns - cause.last_ns > RECENT_NS
    verdict = cause.finding.verdict
    hurts_nobody = verdict == "note" and not cause.weight and cause.finding.group_id is None
    return not cause.lasts, is_old, hurts_nobody, verdict == "unknown", -cause.weight, _ORDER[verdict], -cause.count
