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
#: Of one cause, members that are printed in that time, new ones and counts; the others are counted together.
_MEMBERS: Final = 5
#: Members that a count of several names.
_NAMED: Final = 3
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
    """Findings with one cause and party. `last`: the last one. `printed`: their number when it was last printed."""

    last: Finding
    since_ns: int
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
        #: The causes, and when their counts were printed last: none before the first look at the clock.
        self._printed_ns: dict[Sort, int | None] = {}
        #: Findings of each cause.
        self._totals: Counter[Sort] = Counter()
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
        self._totals[sort] += 1
        group = self._groups.get(key)
        if group is None and len(self._groups) < limits.LIVE_CAUSES and self._new[sort] < _MEMBERS:
            self._new[sort] += 1
            self._groups[key] = _Group(finding, finding.time_ns)
            form: Form = "line" if sort in self._printed_ns else "block"
            self._printed_ns.setdefault(sort, self._now_ns)
            return form
        if group is None:
            key = sort, None
            group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(finding, finding.time_ns, 0, 0)
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
        due = set()
        for sort in {sort for sort, _ in self._open}:
            printed_ns = self._printed_ns.setdefault(sort, None)
            if printed_ns is None:
                self._printed_ns[sort] = now_ns
            elif _is_due(printed_ns, now_ns):
                due.add(sort)
        yield from self._counted([key for key in self._open if key[0] in due])

    def rest(self) -> Iterator[Line]:
        """Yield all counts that were not printed: the end."""
        yield from self._counted([*self._open])

    def _counted(self, keys: list[_Key]) -> Iterator[Line]:
        """Yield a line for each of these groups, or one for all of a cause if they are many."""
        of_sort: dict[Sort, list[Party | None]] = {}
        for sort, party in keys:
            of_sort.setdefault(sort, []).append(party)
        for sort, parties in of_sort.items():
            groups = [self._groups[sort, party] for party in parties]
            if len(groups) > _MEMBERS:
                yield _sum_line([*zip(groups, parties, strict=True)], self._totals[sort])
            else:
                yield from map(_count_line, groups, parties)
            for group, party in zip(groups, parties, strict=True):
                del self._open[sort, party]
                group.printed = group.count
            self._printed_ns[sort] = self._now_ns


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


def _count_line(group: _Group, party: Party | None) -> Line:
    """Return `12:04:29.120  EPOCH_SKIP_AHEAD ×19  violation by client A · skip_ahead · group g, since ... (9 more)`."""
    finding = group.last
    head = _judged(finding) if party is None else judgement(finding, STYLES[finding.verdict])
    return _counts([group], head, "other members" if party is None else _party(finding))


def _sum_line(groups: list[tuple[_Group, Party | None]], total: int) -> Line:
    """Return the same for many members: the total of the cause, and the members with the most new ones."""
    members = sorted((group for group, party in groups if party), key=lambda group: group.printed - group.count)
    named = ", ".join(f"{_name(group.last)} ×{number(group.count)}" for group in members[:_NAMED])
    others = " and others" if len(members) < len(groups) else ""
    whom = f"{number(len(members))} members{others}: {named}, ..."
    return _counts([group for group, _ in groups], _judged(members[0].last), whom, total)


def _counts(groups: list[_Group], judged: Line, whom: str, total: int = 0) -> Line:
    """Return the line of one or several groups with one cause."""
    last = max((group.last for group in groups), key=lambda finding: finding.time_ns)
    count, more = total or groups[0].count, sum(group.count - group.printed for group in groups)
    since = f"since {clock(min(group.since_ns for group in groups), 3)}"
    return [
        (f"{clock(last.time_ns, 3)}  ", DIM),
        (f"{last.code} ×{number(count)}", STYLES[last.verdict]),
        ("  ", PLAIN),
        *judged,
        (f" · {whom}, {since}" if whom else f" · {since}", DIM),
        (f" ({number(more)} more)" if more < count else "", DIM),
    ]


def _judged(finding: Finding) -> Line:
    """Return the verdict and the cause without a name: the findings are of several members."""
    return [(finding.verdict, STYLES[finding.verdict]), (f" · {finding.cause}" if finding.cause else "", PLAIN)]


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


def _name(finding: Finding) -> str:
    """Return a member's client and id."""
    client = shortened(finding.client_id or finding.client, _NAME)
    return f"{client} {shortened(finding.member_id, _NAME)}" if finding.member_id else client


def _is_due(since_ns: int | None, now_ns: int) -> bool:
    return since_ns is None or not 0 <= now_ns - since_ns < EVERY_NS
