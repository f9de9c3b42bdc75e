"""Members in trouble: a paragraph for each, with the broken rules, their number and time, and advice for the client."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.endpoints import host_of, via
from kshark.model import Finding
from kshark.output.catalogue import CODES, parties
from kshark.output.spans import CODE, DIM, ERROR, PLAIN, VALUE, WARN, Line, folded
from kshark.output.units import clock, counted, number, safe, shortened

#: Most paragraphs, members of a group with separate paragraphs, rules with advice, names in a row, and stored names.
_SHOWN: Final = 5
_MEMBERS: Final = 3
_RULES: Final = 3
_NAMES: Final = 3
_KEPT: Final = 100


class Who(NamedTuple):
    """A member of a group; `client` is a name or an address if there is neither."""

    group_id: str | None
    member_id: str | None
    client: str | None = None


class Trouble(Struct):
    """The findings about one party: broken rules with the blamed party, unproved ones, first and last packet."""

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
        _name(self.clients, finding.client_id or _hosts(finding))
        _name(self.brokers, finding.broker)

    def join(self, other: Trouble) -> None:
        """Add the findings of another member of the same group."""
        self.broken.update(other.broken)
        self.unknown.update(other.unknown)
        self.first = min(packet for packet in (self.first, other.first) if packet is not None)
        self.last = max(self.last, other.last)
        for own, names in ((self.clients, other.clients), (self.brokers, other.brokers)):
            for name in names:
                _name(own, name)
        self.members += other.members

    @property
    def rank(self) -> tuple[int, int, tuple[int, int]]:
        """The sort key: the worst first, then the earliest."""
        return -self.broken.total(), -self.unknown.total(), self.first or (0, 0)


class Troubles:
    """Take findings one by one; `lines` describes the worst parties. Notes do not count."""

    def __init__(self) -> None:
        self._of: dict[Who, Trouble] = {}

    def add(self, finding: Finding) -> None:
        if finding.verdict == "note":
            return
        who = Who(finding.group_id, finding.member_id)
        if who == (None, None, None):
            who = Who(None, None, finding.client_id or _hosts(finding))
        if who not in self._of and len(self._of) >= limits.STATISTICS_ROWS:
            who = Who(None, None, None)  # all others together
        self._of.setdefault(who, Trouble()).add(finding)

    def lines(self, width: int | None) -> Iterator[Line]:
        """Return a paragraph and an empty line for each party; nothing without findings."""
        ranked = sorted(self._folded(), key=lambda entry: entry[1].rank)
        for who, trouble in ranked[:_SHOWN]:
            yield from _paragraph(who, trouble, width)
            yield []
        if rest := ranked[_SHOWN:]:
            count = sum(trouble.broken.total() for _, trouble in rest)
            yield [(f"{number(len(rest))} more in trouble, with {counted(count, 'violation')}", DIM)]
            yield []

    def _folded(self) -> Iterator[tuple[Who, Trouble]]:
        """Return the members, or their group if many of its members are in trouble."""
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
    """Return the paragraph: party and findings, members and packets, then the rules with advice.

    `group g · client A: 29 violations of 14 rules, 03:37:45.393 to 03:37:48.243`.
    """
    broken = Counter[str]()
    for (code, _), count in trouble.broken.items():
        broken[code] += count
    (first, first_ns), (last, last_ns) = trouble.first or (0, 0), trouble.last
    when = clock(first_ns, 3) if first_ns == last_ns else f"{clock(first_ns, 3)} to {clock(last_ns, 3)}"
    findings = f"{counted(broken.total(), 'violation')} of {counted(len(broken), 'rule')}"
    if not broken:
        findings = f"{counted(trouble.unknown.total(), 'finding')} not proved by the capture"
    yield from folded(
        [(_name_of(who, trouble), CODE), (": ", PLAIN), (findings, ERROR if broken else WARN), (f", {when}", PLAIN)],
        width,
        2,
    )
    packets = f"packet {first}" if first == last else f"packets {first} to {last}"
    member = f"member {shortened(who.member_id, 40)} · " if who.member_id else ""
    yield from folded([(f"  {member}broker {_few(trouble.brokers)} · {packets}", DIM)], width, 2)
    for code, count in (broken or trouble.unknown).most_common(_RULES):
        yield from _rule(code, count, {blame for rule_code, blame in trouble.broken if rule_code == code}, width)
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
    """Return `a, b, c and 4 more`."""
    all_names = [*names]
    omitted = "many" if len(all_names) == _KEPT else number(len(all_names) - _NAMES)
    rest = f" and {omitted} more" if len(all_names) > _NAMES else ""
    return ", ".join(shortened(name, 40) for name in all_names[:_NAMES]) + rest


def _hosts(finding: Finding) -> str:
    """Return the client's host, and that of the proxy in front of it."""
    return safe(via(host_of(finding.client), finding.proxy and host_of(finding.proxy)))
