"""Differences of rates: findings, errors, requests without an answer, throttling, share sessions, rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import isinf
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kshark.analysis import Rule
from kshark.api_keys import SHARE_FETCH
from kshark.diff.chance import CHANCE, LEAST, Share, chance, factor
from kshark.diff.difference import GRADED, Difference, Kind, Verdict
from kshark.diff.profile import (
    ALL,
    ANSWERS,
    ERRORS,
    FINDINGS,
    HEARTBEATS,
    OF_SOFTWARE,
    REBALANCES,
    REOPENED,
    REQUESTS,
    THROTTLED,
    UNANSWERED,
    FindingKey,
    Profile,
)
from kshark.error_names import ERROR_NAMES
from kshark.incidents import ROWS
from kshark.output.catalogue import CODES, weight_of
from kshark.registry import Registry
from kshark.units import number, shortened

_EVENTS: Final = frozenset(row.code for row in ROWS)
_CLIENT: Final = "client"
#: The parties of findings in the plural.
_ROLES: Final = {"client": "clients", "broker": "brokers"}
#: Most APIs that a sentence names.
_NAMED: Final = 2
#: Most rules that a sentence names.
_SHOWN: Final = 3
#: Most characters of a name from a capture.
_LONG: Final = 60

Pair = tuple[Profile, Profile]


class Rates(NamedTuple):
    """Two rates and their words. `subject` begins the sentence, `noun` names the opportunities.

    `tested`: how often the rule was put to the test before and after, None if that is not known. `unproved`: how often
    it may have been broken besides. `example`: a sentence about the first event. `more`: the end of the row's
    sentence. `expected`: the share of occurrences after, if nothing changed; None: that of the totals.
    """

    kind: Kind
    name: str
    subject: str
    noun: str
    before: Share
    after: Share
    tested: tuple[int, int] | None = None
    unproved: tuple[int, int] = (0, 0)
    code: str | None = None
    packet: int | None = None
    cause: str | None = None
    weight: int = 0
    example: str = ""
    expected: float | None = None
    more: str = ""


def rate_differences(before: Profile, after: Profile, registry: Registry, threshold: float) -> Iterator[Difference]:
    """Yield a row for each rate with an occurrence in one of the captures."""
    pair = before, after
    for rates in (
        *_findings(pair, registry),
        *_of_answers(pair, registry),
        *_of_requests(pair, registry),
        *_of_groups(pair),
    ):
        if rates.before.count or rates.after.count:
            yield difference_of(rates, threshold)


def difference_of(rates: Rates, threshold: float) -> Difference:
    """Return the row of two rates, of something that is bad."""
    before, after = rates.before, rates.after
    growth, odds = _growth(rates), None
    if reason := _not_comparable(rates):
        verdict, sentence = _NOT_COMPARABLE, f"{rates.subject}: {reason}."
    else:
        least = _least(rates, growth)
        odds = _odds(least)
        verdict = (
            _verdict(rates, growth, threshold) if odds < CHANCE and _differs(_growth(least), threshold) else "same"
        )
        sentence = _sentence(rates, verdict, growth) + rates.more
        if verdict == "same" and not _differs(growth, threshold):
            odds = None
        elif verdict == "same":
            odds = max(odds, CHANCE)
            sentence += " May be chance."
            if rates.kind == "event" and not (before.count and after.count):
                verdict = "gone" if before.count else "new"
    return Difference(
        rates.kind,
        rates.name,
        _values(before),
        _values(after),
        None if isinf(growth) or not before.rate else round(growth, 4),
        verdict,
        sentence,
        is_worse=verdict in ("worse", "new") and rates.kind in GRADED and odds is not None and odds < CHANCE,
        chance=odds,
        code=rates.code,
        cause=rates.cause,
        packet=rates.packet,
        weight=rates.weight,
        example=rates.example,
    )


_NOT_COMPARABLE: Final[Verdict] = "not comparable"


def _values(share: Share) -> dict[str, Any]:
    return {"count": share.count, "of": share.of, "per_1000": round(share.per_1000, 3)}


def _not_comparable(rates: Rates) -> str:
    """Return why two rates cannot be compared; empty if they can."""
    for which, share, other, at in (
        ("before", rates.before, rates.after, 0),
        ("after", rates.after, rates.before, 1),
    ):
        found = f"{number(other.count)} of {number(other.of)} {rates.noun} {'before' if at else 'after'}"
        if not share.of:
            return f"{found}; {which} there were none of these"
        if rates.tested is not None and not rates.tested[at] and not share.count:
            return f"{found}; {which} nothing put the rule to the test"
    return ""


def _growth(rates: Rates) -> float:
    """Return how many times the rate grew; infinite if it was 0."""
    if rates.expected is None or not rates.before.count:
        return factor(rates.before, rates.after)
    return rates.after.count / rates.before.count * (1 - rates.expected) / rates.expected


def _least(rates: Rates, growth: float) -> Rates:
    """Return the rates with the least difference that agrees with what is not proved: a rule that was broken only after
    may have been broken before, where the capture could not prove it."""
    before, after = rates.before, rates.after
    if growth > 1:
        least = rates._replace(before=replace(before, count=before.count + rates.unproved[0]))
    else:
        least = rates._replace(after=replace(after, count=after.count + rates.unproved[1]))
    is_opposite = (_growth(least) > 1) != (growth > 1)
    return rates._replace(before=after, after=after) if is_opposite else least


def _odds(rates: Rates) -> float:
    """Return the chance of the difference: by the requests, and by how often the rule was put to the test."""
    odds = chance(rates.before, rates.after, rates.expected)
    if rates.tested is not None and all(rates.tested):
        before, after = (
            replace(share, of=max(tests, share.count))
            for share, tests in zip((rates.before, rates.after), rates.tested, strict=True)
        )
        odds = max(odds, chance(before, after))
    return odds


def _differs(growth: float, threshold: float) -> bool:
    return growth >= threshold or growth * threshold <= 1


def _verdict(rates: Rates, growth: float, threshold: float) -> Verdict:
    """Return the verdict on a difference that is more than chance."""
    before, after = rates.before.count, rates.after.count
    if max(before, after) < LEAST or not _differs(growth, threshold):
        return "same"
    if growth > 1:
        return "worse" if before else "new"
    return "better" if after else "gone"


def _sentence(rates: Rates, verdict: Verdict, growth: float) -> str:
    after, before = _share(rates.after, rates.noun), _share(rates.before)
    match verdict:
        case "new":
            return f"{rates.subject} is new: {after}; {before} before."
        case "gone":
            return f"{rates.subject} is gone: {after}; {before} before."
        case "worse":
            return f"{rates.subject} rose {times(growth)}: {after}; {before} before."
        case "better":
            return f"{rates.subject} fell {times(1 / growth)}: {after}; {before} before."
    return f"{rates.subject}: {after}; {before} before."


def times(growth: float) -> str:
    """Return `2.4 times`."""
    return f"{growth:,.1f} times" if growth < 100 else f"{growth:,.0f} times"


def _share(share: Share, noun: str = "") -> str:
    noun = f" {noun}" if noun else ""
    if not share.count:
        return f"none of {number(share.of)}{noun}"
    if share.count == share.of > 1:
        return f"all {number(share.of)}{noun}"
    per_1000 = share.per_1000
    shown = f"{per_1000:.2g}" if per_1000 < 1 else f"{per_1000:.1f}" if per_1000 < 100 else f"{per_1000:.0f}"
    return f"{number(share.count)} of {number(share.of)}{noun} ({shown} per 1,000)"


# -- findings


def _findings(pair: Pair, registry: Registry) -> Iterator[Rates]:
    """Yield the findings of each rule by cause and party; then those of all its causes, and of all rules by party."""
    rules: dict[tuple[str, str], set[FindingKey]] = {}
    for profile in pair:
        for (key,) in profile.counts.keys(FINDINGS):
            assert isinstance(key, FindingKey)
            rules.setdefault(key[:2], set()).add(key)
    for (code, _), keys in sorted(rules.items()):
        apis = _apis_of(code, pair)
        causes = {key.cause for key in keys}
        for cause in sorted(filter(None, causes)):
            yield from _of_parties(pair, registry, apis, {key for key in keys if key.cause == cause}, cause)
        if len(causes) > 1 or None in causes:
            yield from _of_parties(pair, registry, apis, keys, None)
    yield from _of_all_rules(pair, {key for keys in rules.values() for key in keys})


def _of_parties(
    pair: Pair, registry: Registry, apis: Sequence[int], keys: set[FindingKey], cause: str | None
) -> Iterator[Rates]:
    for party, same in _compared(keys, apis, pair).items():
        yield _finding(pair, registry, apis, same, cause, party)


def _of_all_rules(pair: Pair, keys: set[FindingKey]) -> Iterator[Rates]:
    """Yield all violations of a role, of rules that can be compared: each alone may be broken too seldom."""
    for role in sorted({key.role for key in keys if key.role}):
        same: list[tuple[str, FindingKey]] = []
        total, expected = 0, 0.0
        for key in sorted(keys, key=str):
            if key.role != role or key.code in _EVENTS or not all(each.tested.get(key.code, 1) for each in pair):
                continue
            of: list[Hashable] = [(REQUESTS, api_key) for api_key in _apis_of(key.code, pair)] or [ALL]
            requests = [each.counts.total(*of) for each in pair]
            if all(requests):
                same.append((FINDINGS, key))
                count = sum(each.counts.total(same[-1]) for each in pair)
                total, expected = total + count, expected + count * requests[1] / sum(requests)
        if len({key.code for _, key in same}) > 1:
            role = _ROLES.get(role, role)
            before, after = _shares(pair, same, [ALL])
            yield Rates(
                "finding",
                f"all rules, {role}",
                f"Rule-breaking by {role}",
                "requests",
                before,
                after,
                unproved=_unproved(pair, [key.code for _, key in same]),
                expected=expected / total,
                more=_most(pair[1] if after.count else pair[0], same),
            )


def _most(profile: Profile, keys: Iterable[tuple[str, FindingKey]]) -> str:
    """Return the rules with the most findings: `Most: NO_RECOVERY 63, DOUBLE_ACK 12 and 5 more.`"""
    codes = Counter[str]()
    for key in keys:
        codes[key[1].code] += profile.counts.total(key)
    most = [f"{code} {number(count)}" for code, count in codes.most_common(_SHOWN)]
    rest = sum(count > 0 for count in codes.values()) - len(most)
    return f" Most: {', '.join(most)}{f' and {rest} more rules' if rest > 0 else ''}."


def _apis_of(code: str, pair: Pair) -> list[int]:
    """Return the APIs whose requests a rule is about, as far as the captures have them; empty: all requests."""
    rule = CODES[code]
    apis: Iterable[int] = ()
    if isinstance(rule, Rule) and code not in _EVENTS:
        apis = rule.apis or (rule.machine.apis if rule.machine is not None else ())
    return sorted({*apis} & (pair[0].apis | pair[1].apis))


def _compared(keys: set[FindingKey], apis: Sequence[int], pair: Pair) -> dict[str, list[FindingKey]]:
    """Return the findings of each party. Clients of one software are compared if both captures have requests of it,
    else all clients together."""
    names = {key.software for key in keys if key.role == _CLIENT}
    is_common = all(name and all(each.counts.total(*_asked(each, apis, name)) for each in pair) for name in names)
    parties: dict[str, list[FindingKey]] = {}
    for key in sorted(keys, key=str):
        parties.setdefault(key.party if is_common else key.role, []).append(key)
    return parties


def _asked(profile: Profile, apis: Sequence[int], software: str) -> list[Hashable]:
    """Return the keys of the requests of a software, of these APIs or of all."""
    return [
        (OF_SOFTWARE, api_key, name)
        for api_key, name in profile.counts.keys(OF_SOFTWARE)
        if name == software and (not apis or api_key in apis)
    ]


def _finding(
    pair: Pair, registry: Registry, apis: Sequence[int], keys: Sequence[FindingKey], cause: str | None, party: str
) -> Rates:
    code, verdict = keys[0][:2]
    software = keys[0].software if party != keys[0].role else ""
    before, after = (_share_of(each, keys, apis, software) for each in pair)
    rule = CODES[code]
    is_tested = isinstance(rule, Rule) and rule.number is not None and code not in _EVENTS
    seen = [profile.first[key] for profile in reversed(pair) for key in keys if key in profile.first]
    what = code + (f" ({cause})" if cause else "")
    name = f"{what} by {software or _ROLES.get(party, party)}" if party else what
    subject = f"{what} by {_party(keys, party, pair)}" if party else what
    kind: Kind = "event" if code in _EVENTS else "finding"
    if kind == "finding" and verdict != "violation":
        kind = "unproved" if verdict == "unknown" else "note"
    return Rates(
        kind,
        name,
        subject,
        _noun(apis, registry),
        before,
        after,
        tested=(pair[0].tested.get(code, 0), pair[1].tested.get(code, 0)) if is_tested else None,
        unproved=_unproved(pair, [code]) if verdict == "violation" else (0, 0),
        code=code,
        cause=cause,
        packet=seen[0].packet if seen else None,
        weight=weight_of(code),
        example=seen[0].argument if seen and kind == "event" else "",
    )


def _unproved(pair: Pair, codes: Iterable[str]) -> tuple[int, int]:
    """Return how often these rules were put to the test without a decision."""
    before, after = (sum(each.unproved.get(code, 0) for code in {*codes}) for each in pair)
    return before, after


def _share_of(profile: Profile, keys: Sequence[FindingKey], apis: Sequence[int], software: str) -> Share:
    """Return how many requests have such findings: of these APIs or all, and of a software if one is named."""
    requests: list[Hashable] = [(REQUESTS, api_key) for api_key in apis] or [ALL]
    of = _asked(profile, apis, software) if software else requests
    return Share.made_of(profile.counts.series([(FINDINGS, key) for key in keys], of))


def _party(keys: Sequence[FindingKey], party: str, pair: Pair) -> str:
    """Return the blamed software with its versions, or the blamed role, with the software if all have the same."""
    role = _ROLES.get(party, party)
    for profile in reversed(pair):
        names = {key.software for key in keys if profile.counts.total((FINDINGS, key))}
        if names:
            name = shortened(profile.name_of(names.pop()), _LONG) if len(names) == 1 else ""
            return role if not name else name if party != keys[0].role else f"{role} ({name})"
    return role


def _noun(apis: Sequence[int], registry: Registry, noun: str = "requests") -> str:
    names = [registry.name(api_key) or f"API {api_key}" for api_key in apis]
    return f"{' and '.join(names)} {noun}" if 0 < len(names) <= _NAMED else noun


# -- errors, and requests without an answer


def _of_answers(pair: Pair, registry: Registry) -> Iterator[Rates]:
    """Yield the errors and the throttling of each API, by its answers."""
    kinds = {key for profile in pair for key in profile.counts.keys(ERRORS)}
    for api_key, code in sorted(kinds, key=repr):
        assert isinstance(api_key, int)
        assert isinstance(code, int)
        api, error = _api(api_key, registry), ERROR_NAMES.get(code, f"error {code}")
        shares = _shares(pair, [(ERRORS, api_key, code)], [(ANSWERS, api_key)])
        yield Rates("error", f"{api} {error}", f"{api} {error}", _noun([api_key], registry, "answers"), *shares)
    for api_key in _keys(pair, THROTTLED):
        shares = _shares(pair, [(THROTTLED, api_key)], [(ANSWERS, api_key)])
        api = _api(api_key, registry)
        yield Rates(
            "throttling", f"{api} throttled", f"Throttling of {api}", _noun([api_key], registry, "answers"), *shares
        )


def _of_requests(pair: Pair, registry: Registry) -> Iterator[Rates]:
    for api_key in _keys(pair, UNANSWERED):
        shares = _shares(pair, [(UNANSWERED, api_key)], [(REQUESTS, api_key)])
        api = _api(api_key, registry)
        subject = f"Closing by brokers instead of an answer to {api}"
        yield Rates("unanswered", f"{api} unanswered", subject, _noun([api_key], registry), *shares)


def _of_groups(pair: Pair) -> Iterator[Rates]:
    shares = _shares(pair, [REOPENED], [(REQUESTS, SHARE_FETCH)])
    yield Rates(
        "sessions", "share sessions opened again", "Reopening of share sessions", "ShareFetch requests", *shares
    )
    shares = _shares(pair, [REBALANCES], [HEARTBEATS])
    yield Rates("rebalances", "rebalances", "Rebalancing of groups", "heartbeats", *shares)


def _keys(pair: Pair, kind: str) -> list[int]:
    return sorted({key for profile in pair for (key,) in profile.counts.keys(kind) if isinstance(key, int)})


def _api(api_key: int, registry: Registry) -> str:
    return registry.name(api_key) or f"API {api_key}"


def _shares(pair: Pair, keys: Sequence[Hashable], of: Sequence[Hashable]) -> tuple[Share, Share]:
    before, after = (Share.made_of(profile.counts.series(keys, of)) for profile in pair)
    return before, after
