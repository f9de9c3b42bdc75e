"""Differences that are neither better nor worse: clients, versions, releases, APIs, load; and what was not tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kshark.diff.chance import CHANCE, LEAST, Share, chance, factor
from kshark.diff.difference import Difference, Kind, Verdict
from kshark.diff.profile import ALL, REQUESTS, Profile
from kshark.diff.rates import times
from kshark.registry import Registry
from kshark.units import number, shortened, size

_LONG: Final = 60


def fact_differences(before: Profile, after: Profile, registry: Registry, threshold: float) -> Iterator[Difference]:
    """Yield a row for each client, release, API and load, and for rules that only one capture put to the test."""
    yield from _clients(before, after)
    yield from _releases(before, after)
    yield from _versions(before, after, registry)
    yield from _apis(before, after, registry, threshold)
    yield from _loads(before, after, threshold)
    yield from _untested(before, after)


def _clients(before: Profile, after: Profile) -> Iterator[Difference]:
    for name in sorted((before.software.keys() | after.software.keys()) - {""}):
        versions = [sorted(profile.software.get(name, ())) for profile in (before, after)]
        yield _lists("client", shortened(name, _LONG), "Client", versions)


def _releases(before: Profile, after: Profile) -> Iterator[Difference]:
    if not before.releases and not after.releases:
        return
    if before.releases and after.releases:
        old, new = sorted(before.releases), sorted(after.releases)
        row = _lists("release", "brokers", "", [old, new])
        if row.verdict == "changed" and _may_equal(old, new):
            row.verdict = "same"
        yield row
        return
    which, known = ("before", after) if not before.releases else ("after", before)
    releases = ", ".join(sorted(known.releases))
    sentence = (
        f"Brokers: Kafka {releases} {'after' if which == 'before' else 'before'}; {which} no answer shows a release."
    )
    values = [sorted(profile.releases) or None for profile in (before, after)]
    yield Difference("release", "brokers", values[0], values[1], None, "not comparable", sentence)


def _may_equal(old: list[str], new: list[str]) -> bool:
    """True if both lists may mean the same releases: `4.3`, and `4.2 or 4.3`."""
    possible = [[{*label.split(" or ")} for label in labels] for labels in (old, new)]
    return all(any(mine & theirs for theirs in others) for own, others in (possible, possible[::-1]) for mine in own)


def _versions(before: Profile, after: Profile, registry: Registry) -> Iterator[Difference]:
    """Yield the versions of each API, of software that both captures have."""
    common = before.software.keys() & after.software.keys()
    for software, api_key in sorted(before.versions.keys() | after.versions.keys()):
        if software in common:
            key = software, api_key
            name = f"{registry.name(api_key) or f'API {api_key}'} of {shortened(software, _LONG) or 'unnamed software'}"
            versions = [[f"v{version}" for version in sorted(each.versions.get(key, ()))] for each in (before, after)]
            yield _lists("version", name, "", versions)


def _lists(kind: Kind, name: str, prefix: str, values: list[list[str]]) -> Difference:
    """Return the row of two lists of texts."""
    old, new = values
    subject = f"{prefix} {name}".strip()
    old_text, new_text = (_joined(texts) for texts in values)
    verdict: Verdict = "changed"
    if old == new:
        verdict, sentence = "same", f"{subject}: {new_text}."
    elif not old:
        verdict, sentence = "new", f"{subject} {new_text} is new."
    elif not new:
        verdict, sentence = "gone", f"{subject} {old_text} is gone."
    else:
        kafka = "Kafka " if kind == "release" else ""
        sentence = f"{subject[:1].upper()}{subject[1:]}: {kafka}{old_text} → {kafka}{new_text}."
    return Difference(kind, name, old or None, new or None, None, verdict, " ".join(sentence.split()))


def _joined(texts: Iterable[str]) -> str:
    shown = [shortened(text, 20) for text in texts]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _apis(before: Profile, after: Profile, registry: Registry, threshold: float) -> Iterator[Difference]:
    """Yield the share of each API in all requests."""
    for api_key in sorted(before.apis | after.apis):
        name = registry.name(api_key) or f"API {api_key}"
        old, new = (Share.made_of(each.counts.series([(REQUESTS, api_key)], [ALL])) for each in (before, after))
        values = [{"count": each.count, "of": each.of, "per_1000": round(each.per_1000, 3)} for each in (old, new)]
        growth = factor(old, new)
        odds: float | None = None
        verdict: Verdict = "same"
        shown = f"{number(new.count)} of {number(new.of)} requests; {number(old.count)} of {number(old.of)} before"
        if not old.count or not new.count:
            verdict = "gone" if old.count else "new"
            sentence = f"{name} is {verdict}: {shown}. Its errors and latencies cannot be compared."
        else:
            sentence = f"{name}: {shown}."
            if (growth >= threshold or growth * threshold <= 1) and max(old.count, new.count) >= LEAST:
                odds = chance(old, new)
                if odds < CHANCE:
                    verdict = "changed"
                    word = f"more often, {times(growth)}" if growth > 1 else f"less often, {times(1 / growth)}"
                    sentence = f"{name} is sent {word}: {shown}."
        change = round(growth, 4) if old.count else None
        yield Difference("api", name, values[0], values[1], change, verdict, sentence, chance=odds)


def _loads(before: Profile, after: Profile, threshold: float) -> Iterator[Difference]:
    """Yield requests and bytes a second."""
    for name, old, new in (
        ("requests", before.requests, after.requests),
        ("bytes sent", before.bytes[0], after.bytes[0]),
        ("bytes received", before.bytes[1], after.bytes[1]),
    ):
        if not before.seconds or not after.seconds:
            text = f"{name[:1].upper()}{name[1:]} a second: a capture has no times to compare."
            yield Difference("load", name, None, None, None, "not comparable", text)
            continue
        rates = old / before.seconds, new / after.seconds
        growth = rates[1] / rates[0] if rates[0] else None
        differs = growth is not None and (growth >= threshold or growth * threshold <= 1)
        shown = [f"{rate:,.1f}" if name == "requests" else size(round(rate)) for rate in rates]
        sentence = f"{name[:1].upper()}{name[1:]} a second: {shown[0]} → {shown[1]}."
        values: list[Any] = [{"per_second": round(rate, 3)} for rate in rates]
        change = None if growth is None else round(growth, 4)
        verdict: Verdict = "changed" if differs else "same"
        yield Difference("load", name, values[0], values[1], change, verdict, sentence)


def _untested(before: Profile, after: Profile) -> Iterator[Difference]:
    """Yield the rules that only one capture put to the test."""
    for code in before.tested.keys() | after.tested.keys():
        old, new = before.tested.get(code, 0), after.tested.get(code, 0)
        if bool(old) != bool(new):
            which = "before" if old else "after"
            sentence = f"{code} was put to the test only {which} ({number(old or new)} times)."
            yield Difference("coverage", code, old, new, None, "not comparable", sentence, code=code)
