"""Group repeated findings for people: one block or line for each cause and member, then how often, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from kshark import limits
from kshark.endpoints import host_of
from kshark.model import Finding
from kshark.output.findings import STYLES, Sort, judgement, sort_of
from kshark.output.spans import DIM, PLAIN, VALUE, Line
from kshark.units import clock, number, safe, shortened

#: A count is printed no more often than this for each cause and member.
EVERY_NS: Final = 5_000_000_000
#: New members of a known cause that are printed in that time; the others are counted together.
_NEW_MEMBERS: Final = 10
#: Longest name in a line.
_NAME: Final = 40

#: The form of a finding: its whole block, one line, or nothing, since it is counted.
Form = Literal["block", "line"] | None


class Party(NamedTuple):
    """The member that a finding is about, or else its client; the broker, if the broker is to blame."""

    group_id: str | None
    member: str
    broker: str


class _Group(Struct):
    """Findings with one cause and party. `last`: the last one, whose time may be earlier than that of others.

    `printed`: their number when it was last printed, at `printed_ns`.
    """

    last: Finding
    since_ns: int
    printed_ns: int | None
    count: int = 1
    printed: int = 1


#: A cause with one party, or with all other parties (None).
_Key = tuple[Sort, Party | None]


class Grouping:
    """Count findings by cause and party, at most limits.LIVE_CAUSES of these; the rest is counted by cause.

    It has no clock: `due` gets the time.
    """

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}
        self._sorts: set[Sort] = set()
        #: Keys of groups with a count that is not printed.
        self._open: dict[_Key, None] = {}
        #: New members printed since the last restart of their budget.
        self._new: Counter[Sort] = Counter()
        self._new_since_ns: int | None = None
        self._now_ns: int | None = None

    def add(self, finding: Finding) -> Form:
        """Count a finding, and return how it is printed."""
        sort = sort_of(finding)
        key: _Key = sort, party_of(finding)
        group = self._groups.get(key)
        if group is None and len(self._groups) < limits.LIVE_CAUSES and self._new[sort] <= _NEW_MEMBERS:
            self._new[sort] += 1
            self._groups[key] = _Group(finding, finding.time_ns, self._now_ns)
            form: Form = "line" if sort in self._sorts else "block"
            self._sorts.add(sort)
            return form
        if group is None:
            key = sort, None
            group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(finding, finding.time_ns, self._now_ns, 0, 0)
        group.count += 1
        group.last = finding
        self._open[key] = None
        return None

    def due(self, now_ns: int) -> Iterator[Line]:
        """Yield the counts that are due at that time. A clock that was set back makes all of them due."""
        self._now_ns = now_ns
        if _is_due(self._new_since_ns, now_ns):
            self._new.clear()
            self._new_since_ns = now_ns
        for key in [*self._open]:
            group = self._groups[key]
            if group.printed_ns is None:
                group.printed_ns = now_ns
            elif _is_due(group.printed_ns, now_ns):
                yield self._counted(key, now_ns)

    def rest(self) -> Iterator[Line]:
        """Yield all counts that were not printed: the end."""
        for key in [*self._open]:
            yield self._counted(key, self._now_ns)

    def _counted(self, key: _Key, now_ns: int | None) -> Line:
        del self._open[key]
        group = self._groups[key]
        more, group.printed, group.printed_ns = group.count - group.printed, group.count, now_ns
        return _count_line(group, key[1], more)


def party_of(finding: Finding) -> Party:
    """Return whom a finding is about."""
    member = finding.member_id or finding.client_id or host_of(finding.client)
    return Party(finding.group_id, member, finding.broker if finding.blame == "broker" else "")


def short_line(finding: Finding) -> Line:
    """Return a finding in one line: time, code, verdict, whom it is about, and the argument."""
    style = STYLES[finding.verdict]
    return [
        (f"{clock(finding.time_ns, 3)}  ", DIM),
        (finding.code, style),
        ("  ", PLAIN),
        *judgement(finding, style),
        (f" · {_party(finding)}" if _party(finding) else "", DIM),
        (f": {safe(finding.argument)}", VALUE),
    ]


def _count_line(group: _Group, party: Party | None, more: int) -> Line:
    """Return `12:04:29.120  EPOCH_SKIP_AHEAD ×19  violation by client A · skip_ahead · group g, 14 more since ...`."""
    finding = group.last
    style = STYLES[finding.verdict]
    whom = "other members" if party is None else _party(finding)
    since = f"{whom}, since {clock(group.since_ns, 3)}" if whom else f"since {clock(group.since_ns, 3)}"
    return [
        (f"{clock(finding.time_ns, 3)}  ", DIM),
        (f"{finding.code} ×{number(group.count)}", style),
        ("  ", PLAIN),
        *(judgement(finding, style) if party is not None else _judged(finding, style)),
        (f" · {since}" + (f" ({number(more)} more)" if more < group.count else ""), DIM),
    ]


def _judged(finding: Finding, style: str) -> Line:
    """Return the verdict and the cause without a name: the findings are of several members."""
    return [(finding.verdict, style), (f" · {finding.cause}" if finding.cause else "", PLAIN)]


def _party(finding: Finding) -> str:
    """Return client (unless `judgement` names it), group and member, as far as known; the broker, if it is to blame."""
    is_named = finding.verdict == "violation" and finding.blame == "client" and finding.client_id
    parts = [] if is_named else [f"client {shortened(finding.client_id or finding.client, _NAME)}"]
    if finding.group_id:
        parts.append(f"group {shortened(finding.group_id, _NAME)}")
    if finding.member_id:
        parts.append(f"member {shortened(finding.member_id, _NAME)}")
    if finding.blame == "broker":
        parts.append(f"broker {safe(finding.broker)}")
    return ", ".join(parts)


def _is_due(since_ns: int | None, now_ns: int) -> bool:
    return since_ns is None or not 0 <= now_ns - since_ns < EVERY_NS
