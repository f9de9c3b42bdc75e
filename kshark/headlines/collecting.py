"""Collect the findings of a capture, and say by what hurts what they mean: headlines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.analysis import REASONS, MemberKey, Outcomes, Rule
from kshark.analysis.rules.causes import ADVICE, CAUSES
from kshark.headlines.alike import INCIDENTS, REMOVED, Alike, Sort, few, joined, named, sort_of
from kshark.headlines.headline import Headline
from kshark.headlines.hurts import OfMember, hurts, kept_waiting
from kshark.headlines.lost import Lost, lost_sessions
from kshark.model import Finding
from kshark.output.catalogue import CODES, advice_of, parties, weight_of
from kshark.units import counted, duration, number

#: Violations of this weight have a headline of their own, whatever else their client does.
_HEAVY: Final = 70
#: Events that are shorter have no duration worth naming.
_LASTING_NS: Final = 1_000_000_000
#: Notes that hurt nobody because of their cause: clients end with a request open.
_HARMLESS: Final = {("REQUEST_UNANSWERED", "client_closed"), ("REQUEST_UNANSWERED", None)}
#: Lost sessions that are nobody's fault, by their cause, with the weight of their headline.
_LOST_SESSIONS: Final = {"evicted": 45, "connection_closed": 40, "broker_restart": 35}
#: Refusals that keep a member out of its group, by their cause.
_LOCKED_OUT: Final = {("INSTANCE_ID_TAKEN", "not_released")}
#: Notes about a partition that gives its members nothing.
_HOLDING: Final = {"WINDOW_SATURATED"}
#: So many findings with one cause, and none with another, are a pattern.
_PATTERN: Final = 5
#: The first finding of a note is quoted if it is not longer.
_QUOTED: Final = 120
#: A time of day.
_TIME: Final = re.compile(r"\b\d\d:\d\d:\d\d")
#: Most names in a headline's fields.
_NAMES: Final = 3
#: What made a client do it, by the party that is blamed: a rule that accuses clients or the network.
_FORCED: Final = {
    "network": " after the network had lost the answer",
    "unknown": " after its connection had ended without the answer",
}

NO_OUTCOMES: Final[Mapping[MemberKey, Outcomes]] = MappingProxyType({})
#: Findings with the properties that they share.
_Entry = tuple[Sort, Alike]


class Headlines:
    """Take findings in the order of packets, each with the incident that explains it."""

    def __init__(self, selected: Collection[str] = ()) -> None:
        """`selected`: codes that the user asks for, of which all findings are. Each that has some has a headline, and
        who is hurt for another reason is not said.
        """
        self._selected = sorted(selected)
        self._alike: dict[Sort, Alike] = {}
        #: Refusals that keep a member out of its group: by member, too.
        self._streaks: dict[tuple[Sort, str | None, str | None], Alike] = {}
        #: By group and member.
        self._of_members: defaultdict[tuple[str | None, str | None], OfMember] = defaultdict(OfMember)

    def add(self, finding: Finding) -> None:
        sort = sort_of(finding)
        if sort not in self._alike and len(self._alike) >= limits.STATISTICS_ROWS:
            sort = sort._replace(event=None)
        self._alike.setdefault(sort, Alike(finding, finding)).add(finding)
        member = finding.group_id, finding.member_id
        if (sort.code, sort.cause) in _LOCKED_OUT:
            self._lock_out((sort, *member), finding)
        if member in self._of_members or len(self._of_members) < limits.STATISTICS_ROWS:
            self._of_members[member].add(finding)

    def _lock_out(self, attempt: tuple[Sort, str | None, str | None], finding: Finding) -> None:
        """Take a member's attempt to join that was refused."""
        if attempt in self._streaks or len(self._streaks) < limits.STATISTICS_ROWS:
            self._streaks.setdefault(attempt, Alike(finding, finding)).add(finding)

    def of(
        self, outcomes: Mapping[MemberKey, Outcomes] = NO_OUTCOMES, capture: Iterable[Headline] = ()
    ) -> list[Headline]:
        """Return what to say first: about the capture, then who is hurt, events and rules, by weight."""
        others = self._hurts(outcomes), self._events(), self._rules(), self._notes(outcomes)
        found = [*chain.from_iterable(others)] or [*self._unproved()]
        return [*capture, *sorted([*found, *self._missing(found)], key=_rank)]

    def _hurts(self, outcomes: Mapping[MemberKey, Outcomes]) -> Iterator[Headline]:
        for headline in hurts(outcomes, self._of_members):
            if not self._selected or headline.code in self._selected:
                yield headline

    def _missing(self, found: Sequence[Headline]) -> Iterator[Headline]:
        """Yield a headline for each selected code that has none: about its most frequent findings."""
        shown = {headline.code for headline in found}.union(*(headline.more for headline in found))
        for code in self._selected:
            entries = [entry for entry in self._alike.items() if entry[0].code == code]
            if entries and code not in shown:
                sort, alike = max(entries, key=lambda entry: entry[1].count)
                yield _suspected(sort, alike, has_pattern=False) if sort.verdict == "unknown" else _noted(sort, alike)

    def _events(self) -> Iterator[Headline]:
        for sort, alike in self._alike.items():
            if sort.code not in INCIDENTS or sort.event is not None:
                continue
            text = _happened(alike)
            if sort.verdict == "unknown":
                because = alike.first.unknown_because or ""
                text += f" Not proved: {REASONS.get(because, because)}."
            explained = Counter[str]()
            for other, same in self._alike.items():
                if other.event is not None and other.event[0] == sort.code and other.event[1] in alike.begins:
                    explained[other.code] += same.count
            yield _headline("event", text, sort, alike, explained)

    def _rules(self) -> Iterator[Headline]:
        """Yield the broken rules. Lighter ones of clients with the same software share a headline."""
        shared: dict[str, list[_Entry]] = {}
        for sort, alike in self._alike.items():
            if sort.verdict != "violation" or sort.code in INCIDENTS:
                continue
            if sort.blame == "client" and weight_of(sort.code) < _HEAVY:
                shared.setdefault(few(alike.software), []).append((sort, alike))
            else:
                yield _broken(sort, alike)
        for entries in shared.values():
            (sort, alike), *others = sorted(entries, key=lambda entry: (-weight_of(entry[0].code), -entry[1].count))
            yield _broken(sort, alike, others)

    def _notes(self, outcomes: Mapping[MemberKey, Outcomes]) -> Iterator[Headline]:
        """Yield what hurts without a fault of a party: notes that have a weight, and that no event explains."""
        for sort, alike in self._alike.items():
            if sort.verdict != "note" or sort.event is not None or sort.code in INCIDENTS:
                continue
            rule = CODES[sort.code]
            if sort.code == "SESSION_UNKNOWN":
                if sort.cause in _LOST_SESSIONS:
                    yield _lost(sort, alike, lost_sessions(sort.cause, self._of_members, outcomes))
            elif (sort.code, sort.cause) in _LOCKED_OUT:
                streaks = [streak for of, streak in self._streaks.items() if of[0] == sort and streak.is_streak]
                if streaks:
                    yield _locked_out(sort, streaks)
            elif (sort.code, sort.cause) in REMOVED:
                yield _removed(sort, alike)
            elif (
                isinstance(rule, Rule)
                and not rule.accuses
                and rule.weight > 0
                and (sort.code, sort.cause) not in _HARMLESS
            ):
                yield _noted(sort, alike, kept_waiting(alike.first, outcomes) if sort.code in _HOLDING else "")

    def _unproved(self) -> Iterator[Headline]:
        """Yield the most frequent finding that is not proved: if nothing else is known, it is where to look."""
        unknown = [entry for entry in self._alike.items() if entry[0].verdict == "unknown"]
        if unknown:
            sort, alike = max(unknown, key=lambda entry: entry[1].count)
            is_alone = sum(other.code == sort.code for other, _ in unknown) == 1
            yield _suspected(sort, alike, has_pattern=is_alone and alike.count >= _PATTERN)


def _noted(sort: Sort, alike: Alike, whom: str = "") -> Headline:
    """Return the headline of a note: what happened to whom, and the rest of the rule's text. `whom`: a sentence about
    members that it hurts."""
    what, _, rest = CODES[sort.code].text.removesuffix(".").partition(". ")
    text = f"{what}: {named('client', alike.clients)}" if alike.clients else what
    text += f", group {few(alike.groups)}" if len(alike.groups) == 1 else ""
    text += f", {alike.when}."
    if rest:
        text += f" {rest}."
    text += whom
    if len(alike.first.argument) <= _QUOTED:
        text += f" {'First: ' if alike.count > 1 else ''}{_sentence(alike.first.argument)}"
    return replace(_headline("hurt", text, sort, alike, Counter()), blame=None)


def _locked_out(sort: Sort, streaks: Sequence[Alike]) -> Headline:
    """Return the headline of members that cannot join, because each attempt is refused for an ordinary reason."""
    assert sort.cause is not None
    alike = joined(streaks)
    lasted = duration(max(streak.lasted_ns for streak in streaks))
    text = f"{_party(sort._replace(blame='client'), alike)} could not join for {lasted}"
    text += f", group {few(alike.groups)}" if len(alike.groups) == 1 else ""
    text += f", {counted(alike.count, 'attempt')}, {alike.span}: {CAUSES[sort.cause]}. "
    text += f"First: {_sentence(alike.first.argument)}"
    return replace(_headline("hurt", text, sort, alike, Counter()), blame=None)


def _lost(sort: Sort, alike: Alike, lost: Lost) -> Headline:
    """Return the headline of share sessions that the broker did not have any more, and nobody is to blame."""
    assert sort.cause is not None
    text = f"{_party(sort._replace(blame='client'), alike)} lost {lost.how_many}"
    text += f", group {few(alike.groups)}" if len(alike.groups) == 1 else ""
    text += f", {alike.span}: {lost.reason(sort.cause)}."
    headline = _headline("hurt", text, sort, alike, Counter())
    advice = lost.advice(sort.cause) or headline.advice
    return replace(headline, blame=None, weight=_LOST_SESSIONS[sort.cause], advice=advice)


def _removed(sort: Sort, alike: Alike) -> Headline:
    """Return the headline of members that were removed from their group: the reason of their refused requests."""
    text = f"{_party(sort._replace(blame='client'), alike)} {'were' if len(alike.clients) > 1 else 'was'} no longer in "
    text += f"{named('group', alike.groups)}, {alike.when}: "
    # Between the last request before and the refused one the argument has the reason.
    _, *reasons = alike.first.argument.split("; ")
    reason = reasons[0] if len(reasons) > 1 else CAUSES[sort.cause or "unknown"]
    text += f"{'the first time, ' if alike.count > 1 else ''}{reason}."
    advice = REMOVED[sort.code, sort.cause or ""]
    return replace(_headline("hurt", text, sort, alike, Counter()), blame=None, advice=advice)


def _suspected(sort: Sort, alike: Alike, *, has_pattern: bool) -> Headline:
    """Return the headline of a finding that is not proved. It accuses nobody.

    `has_pattern`: all findings of its rule have the same cause, and they are several.
    """
    entry = CODES[sort.code]
    text = f"Not proved: {entry.text.rstrip('.')}"
    text += f": {named('client', alike.clients)}" if alike.clients else ""
    text += f", group {few(alike.groups)}" if len(alike.groups) == 1 else ""
    because = alike.first.unknown_because
    reason = f" {_sentence(REASONS[because])}" if because in REASONS else ""
    if has_pattern and sort.cause in ADVICE:
        reason += f" Each time, {CAUSES[sort.cause]}."
    headline = _headline("rule", f"{text}, {alike.when}.{reason}", sort, alike, Counter())
    return headline if has_pattern else replace(headline, advice=entry.advice)


def _broken(sort: Sort, alike: Alike, others: Sequence[_Entry] = ()) -> Headline:
    """Return the headline of a broken rule. `others`: other violations by the same party."""
    rule = CODES[sort.code]
    assert isinstance(rule, Rule)
    act = rule.act or f"broke a rule: {rule.text}".rstrip(".")
    is_many = len(alike.brokers if sort.blame == "broker" else alike.clients) > 1
    text = f"{_party(sort, alike)} {_of_many(act) if is_many else act}"
    if _is_forced(sort):
        text += _FORCED[sort.blame]
    elif sort.blame != "client" and alike.clients:
        text += f": {named('client', alike.clients)}"
    if len(alike.groups) == 1:
        text += f", group {few(alike.groups)}"
    text += f", {alike.when}."
    if rule.tickets and sort.blame == "broker":
        text += f" Known bug: {', '.join(rule.tickets)}."
    more = Counter[str]()
    for other, same in others:
        more[other.code] += same.count
    if more:
        rules = "another rule" if len(more) == 1 else counted(len(more), "other rule")
        text += f" Also {counted(more.total(), 'violation')} of {rules}."
    return _headline("rule", text, sort, alike, more)


def _headline(kind: str, text: str, sort: Sort, alike: Alike, more: Counter[str]) -> Headline:
    entry = CODES[sort.code]
    return Headline(
        kind,  # type: ignore[arg-type]
        text,
        advice_of(sort.code, sort.cause),
        sort.code,
        sort.verdict,
        sort.blame,
        weight_of(sort.code),
        alike.count,
        dict(more.most_common()),
        alike.first.time_ns,
        alike.until[1],
        (alike.first.packet, alike.until[0]),
        [*alike.clients][:_NAMES],
        [*alike.brokers][:_NAMES],
        getattr(entry, "tickets", ()),
    )


def _of_many(act: str) -> str:
    """Return what one party did as the act of several."""
    for singular, plural in ((r"\bits\b", "their"), (r"\bit is\b", "they are"), (r"\bit\b", "they")):
        act = re.sub(singular, plural, act)
    return act


def _is_forced(sort: Sort) -> bool:
    """True if the client did it, because the network may have lost an answer."""
    rule = CODES[sort.code]
    return sort.blame in _FORCED and isinstance(rule, Rule) and {"client", "network"} <= {*rule.blame}


def _party(sort: Sort, alike: Alike) -> str:
    """Return the blamed party, as the beginning of a sentence."""
    if sort.blame == "broker":
        text = named("broker", alike.brokers)
    elif sort.blame == "client" or _is_forced(sort):
        text = named("client", alike.clients)
        if len(alike.software) == 1:
            text += f" ({few(alike.software)})"
    else:
        text = f"{' or '.join(parties(sort.code, sort.blame))} ({few(alike.clients)}, broker {few(alike.brokers)})"
    return text[:1].upper() + text[1:]


def _rank(headline: Headline) -> tuple[int, bool, int]:
    """Return the sort key: weight, a broker before a client, the number of findings."""
    return -headline.weight, headline.blame != "broker", -headline.count


def _happened(alike: Alike) -> str:
    """Return what an event was, the longest of several, and when."""
    text = _sentence(alike.longest.argument)
    if alike.count == 1:
        return text if _TIME.search(text) else f"{text.removesuffix('.')}, {alike.when}."
    shortest_ns, longest_ns = alike.times_ns or (0, 0)
    took = ""
    if longest_ns >= _LASTING_NS:
        took = f" of {duration(shortest_ns)} to" if shortest_ns else " of up to"  # an event may be a single packet
        took += f" {duration(longest_ns)}"
    whose = named("client", alike.clients) if len(alike.clients) > 1 else ""
    if not whose and len(alike.brokers) > 1:
        whose = named("broker", alike.brokers)
    took += f", of {whose}" if whose else ""
    return f"{text} The longest of {number(alike.count)} such events{took}, {alike.span}."


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
