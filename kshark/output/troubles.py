"""Who is in trouble: a paragraph for each member whose rules were broken, how often, since when, and what a client
should do about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.endpoints import host_of
from kshark.model import Finding
from kshark.output.catalogue import CODES, parties
from kshark.output.spans import CODE, DIM, ERROR, PLAIN, VALUE, WARN, Line, folded
from kshark.output.units import clock, counted, number, safe, shortened

#: At most so many paragraphs, members of a group before they are told together, rules with their advice, names in a
#: row; and names kept.
_SHOWN: Final = 5
_MEMBERS: Final = 3
_RULES: Final = 3
_NAMES: Final = 3
_KEPT: Final = 100


class Who(NamedTuple):
    """A member of a group; a client by its name or address where there is neither."""

    group_id: str | None
    member_id: str | None
    client: str | None = None


class Trouble(Struct):
    """What was found of somebody: how often each rule was broken, and by whom, or may have been; the first packet of
    that, and the last."""

    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    first: tuple[int, int] | None = None
    last: tuple[int, int] = (0, 0)
    clients: dict[str, None] = field(default_factory=dict)
    brokers: dict[str, None] = field(default_factory=dict)
    members: int = 1

    def add(self, finding: Finding) -> None:
        if finding.verdict == "violation":
            self.broken[finding.code, finding.blame] += 1
        else:
            self.unknown[finding.code] += 1
        here = finding.packet, finding.time_ns
        self.first = here if self.first is None else min(self.first, here)
        self.last = max(self.last, here)
        _name(self.clients, finding.client_id or _host(finding.client))
        _name(self.brokers, finding.broker)

    def join(self, other: Trouble) -> None:
        """Another member's, of the same group."""
        self.broken.update(other.broken)
        self.unknown.update(other.unknown)
        self.first = min(one for one in (self.first, other.first) if one is not None)
        self.last = max(self.last, other.last)
        for mine, names in ((self.clients, other.clients), (self.brokers, other.brokers)):
            for name in names:
                _name(mine, name)
        self.members += other.members

    @property
    def rank(self) -> tuple[int, int, tuple[int, int]]:
        """The worst first, then the earliest."""
        return -self.broken.total(), -self.unknown.total(), self.first or (0, 0)


class Troubles:
    """Takes findings as they come; `lines` tells of the worst. Notes put nobody in trouble."""

    def __init__(self) -> None:
        self._of: dict[Who, Trouble] = {}

    def add(self, finding: Finding) -> None:
        if finding.verdict == "note":
            return
        who = Who(finding.group_id, finding.member_id)
        if who == (None, None, None):
            who = Who(None, None, finding.client_id or _host(finding.client))
        if who not in self._of and len(self._of) >= limits.STATISTICS_ROWS:
            who = Who(None, None, None)  # all others together
        self._of.setdefault(who, Trouble()).add(finding)

    def lines(self, width: int | None) -> Iterator[Line]:
        """A paragraph each, and an empty line behind it; nothing where nobody is in trouble."""
        told = sorted(self._folded(), key=lambda one: one[1].rank)
        for who, trouble in told[:_SHOWN]:
            yield from _paragraph(who, trouble, width)
            yield []
        if rest := told[_SHOWN:]:
            count = sum(trouble.broken.total() for _, trouble in rest)
            yield [(f"{number(len(rest))} more in trouble, with {counted(count, 'violation')}", DIM)]
            yield []

    def _folded(self) -> Iterator[tuple[Who, Trouble]]:
        """Members, or their group where many of it are in trouble."""
        groups = defaultdict[str | None, list[tuple[Who, Trouble]]](list)
        for who, trouble in self._of.items():
            groups[who.group_id].append((who, trouble))
        for group_id, members in groups.items():
            if group_id is None or len(members) <= _MEMBERS:
                yield from members
                continue
            whole = Trouble(members=0)
            for _, trouble in members:
                whole.join(trouble)
            yield Who(group_id, None), whole


def _paragraph(who: Who, trouble: Trouble, width: int | None) -> Iterator[Line]:
    """`group g · client A: 29 violations of 14 rules, 03:37:45.393 to 03:37:48.243`; where that was; the rules, with
    advice."""
    broken = Counter[str]()
    for (code, _), count in trouble.broken.items():
        broken[code] += count
    (first, first_ns), (last, last_ns) = trouble.first or (0, 0), trouble.last
    when = clock(first_ns, 3) if first_ns == last_ns else f"{clock(first_ns, 3)} to {clock(last_ns, 3)}"
    what = f"{counted(broken.total(), 'violation')} of {counted(len(broken), 'rule')}"
    if not broken:
        what = f"{counted(trouble.unknown.total(), 'finding')} that the capture does not prove"
    yield from folded(
        [(_name_of(who, trouble), CODE), (": ", PLAIN), (what, ERROR if broken else WARN), (f", {when}", PLAIN)],
        width,
        2,
    )
    packets = f"packet {first}" if first == last else f"packets {first} to {last}"
    member = f"member {shortened(who.member_id, 40)} · " if who.member_id else ""
    yield from folded([(f"  {member}broker {_few(trouble.brokers)} · {packets}", DIM)], width, 2)
    for code, count in (broken or trouble.unknown).most_common(_RULES):
        yield from _rule(code, count, {blame for of, blame in trouble.broken if of == code}, width)
    yield from _rest([("also ", (broken or trouble.unknown).most_common()[_RULES:])], width)
    if broken and trouble.unknown:
        yield from _rest([("not proved: ", trouble.unknown.most_common())], width)


def _rule(code: str, count: int, blamed: Iterable[str], width: int | None) -> Iterator[Line]:
    entry = CODES.get(code)
    named = sorted({party for blame in blamed for party in parties(code, blame)})
    by = f" (by the {' or '.join(named)})" if named not in ([], ["client"]) else ""
    yield from folded(
        [(f"  {number(count)} × ", PLAIN), (code, ERROR), (f"{by}  {entry.text if entry is not None else ''}", PLAIN)],
        width,
        6,
    )
    if advice := getattr(entry, "advice", ""):
        yield from folded([("      → ", DIM), (advice, VALUE)], width, 8)


def _rest(groups: Iterable[tuple[str, list[tuple[str, int]]]], width: int | None) -> Iterator[Line]:
    for title, codes in groups:
        if codes:
            yield from folded(
                [
                    (
                        f"  {title}"
                        + ", ".join(code if count == 1 else f"{code} {number(count)}" for code, count in codes),
                        DIM,
                    )
                ],
                width,
                6,
            )


def _name_of(who: Who, trouble: Trouble) -> str:
    clients = f"client {_few(trouble.clients)}" if len(trouble.clients) == 1 else f"clients {_few(trouble.clients)}"
    if who.group_id is None:
        return clients if who.client is not None else f"all others, {clients}"
    group = f"group {shortened(who.group_id, 40) or '(empty)'}"
    return (
        f"{group} · {counted(trouble.members, 'member')}, {clients}" if trouble.members > 1 else f"{group} · {clients}"
    )


def _name(names: dict[str, None], name: str) -> None:
    if len(names) < _KEPT:
        names[name] = None


def _few(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    all_names = [*names]
    left = "many" if len(all_names) == _KEPT else number(len(all_names) - _NAMES)
    more = f" and {left} more" if len(all_names) > _NAMES else ""
    return ", ".join(shortened(name, 40) for name in all_names[:_NAMES]) + more


def _host(address: str) -> str:
    return safe(host_of(address))
