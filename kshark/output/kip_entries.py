"""`kshark explain KIP-932`: what a Kafka Improvement Proposal brought, and the rules that rest on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kshark.analysis import Rule
from kshark.output.catalogue import EVERY_RULE
from kshark.output.entries import facts_lines
from kshark.output.spans import API, CODE, DIM, LABEL, PLAIN, VALUE, Line, folded, hanging
from kshark.registry import Registry
from kshark.schema import Versions, versions_of
from kshark_dissectors.kips import KIPS, Kip
from kshark_dissectors.releases import RELEASES, SPOKEN

_NAME: Final = re.compile(r"KIP[- ]?([0-9]{1,6})", re.IGNORECASE)
_UNSTABLE: Final = "*"
#: A sentence names all rules of a proposal up to this many; a list follows beyond it.
_MANY_RULES: Final = 12


def kip_number(name: str) -> int | None:
    """Return the number of `KIP-932`, `kip932` or `KIP 932`; None for other text."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def kip_lines(number: int, registry: Registry, width: int | None) -> Iterator[Line]:
    """Return the page of a proposal. Raises KeyError for one that is not in KIPS."""
    kip = KIPS[number]
    yield [(f"KIP-{number}", CODE), (f"  {_releases(kip)}", DIM)]
    yield from folded([(f"{kip.title}.", PLAIN)], width)
    yield from _api_lines(number, kip, registry, width)
    if kip.structures:
        yield []
        yield [("structures", API), ("  inside bytes", DIM)]
        yield from ([("  " + name, VALUE)] for name in kip.structures)
    if kip.errors:
        yield []
        yield [("errors", API)]
        yield from ([(f"  {error.value:>3} {error.name}", VALUE)] for error in kip.errors)
    rules = rules_of(number)
    if rules:
        yield []
        texts = "; kshark explain rules has their texts" if len(rules) > _MANY_RULES else ""
        yield [("rules", API), (f"  {len(rules)} that {'rests' if len(rules) == 1 else 'rest'} on it{texts}", DIM)]
        yield from _rule_lines(rules, width)
    related = [other for other in KIPS if number in KIPS[other].see]
    if kip.see or related:
        yield []
    yield from facts_lines(
        ("changed by", ", ".join(f"KIP-{other}" for other in kip.see)),
        ("changes", ", ".join(f"KIP-{other}" for other in related)),
    )


def _releases(kip: Kip) -> str:
    return "Kafka " + ", ".join(f"{release} ({stage})" if stage else release for release, stage in kip.releases)


class _Change(NamedTuple):
    """An API that a proposal brought (`versions` empty), or versions and fields of one that existed before."""

    key: int
    api: str
    versions: str
    fields: list[str]


def _changes(number: int, kip: Kip, registry: Registry) -> list[_Change]:
    """Return what a proposal brought to APIs: whole new ones first."""
    names = registry.names()
    brought = [_Change(key, name, "", []) for key, name in names.items() if _kip_of(registry, key) == number]
    return [
        *brought,
        *(_Change(key, names.get(key, str(key)), *_split(change)) for key, change in kip.changes.items()),
    ]


def _kip_of(registry: Registry, key: int) -> int | None:
    api = registry.api(key)
    return kip_number(api.kip) if api is not None else None


def _api_lines(number: int, kip: Kip, registry: Registry, width: int | None) -> Iterator[Line]:
    changes = _changes(number, kip, registry)
    if not changes:
        return
    yield []
    yield [("APIs", API)]
    wide = max(len(change.api) for change in changes)
    for change in changes:
        head = f"  {change.api.ljust(wide)}  "
        yield from hanging([(head, VALUE), (_notes(change), PLAIN)], width, len(head))


def _notes(change: _Change) -> str:
    several = "" if change.versions.isdecimal() else "s"
    notes = [f"version{several} {change.versions}" if change.versions else f"API {change.key}"]
    if since := _since(change):
        notes.append(f"since Kafka {since}")
    if change.fields:
        notes.append("new: " + ", ".join(change.fields))
    return " · ".join(notes)


def _since(change: _Change) -> str:
    """Return the first release that speaks these versions; empty if releases before RELEASES did, or none does yet.

    A last version that has to be enabled does not count.
    """
    lowest = versions_of(change.versions).low if change.versions else None
    for release, spoken in zip(RELEASES, SPOKEN.get(change.key, ()), strict=False):
        versions = versions_of(spoken.removesuffix(_UNSTABLE) or "none")
        stable = Versions(versions.low, versions.high - 1) if spoken.endswith(_UNSTABLE) else versions
        if stable.low <= stable.high and (lowest is None or lowest in stable):
            return release if release != RELEASES[0] else ""
    return ""


def _of_api(key: int) -> list[tuple[int, _Change]]:
    """Return the proposals that changed an API, with what they brought to it, by version."""
    found = [
        (number, _Change(key, "", *_split(kip.changes[key]))) for number, kip in KIPS.items() if key in kip.changes
    ]
    return sorted(found, key=lambda pair: versions_of(pair[1].versions).low)


def _split(change: tuple[str, str]) -> tuple[str, list[str]]:
    return change[0], change[1].split()


def api_kip_lines(key: int, width: int | None) -> Iterator[Line]:
    """Return the proposals that changed an API; nothing if there are none."""
    changes = _of_api(key)
    if changes:
        yield []
        yield [("proposals", API), ("  that changed it; kshark explain KIP-1222 says what one brought", DIM)]
    for number, change in changes:
        head = f"  KIP-{number}".ljust(12)
        subject = "" if change.fields else f" · {KIPS[number].title}"
        yield from hanging([(head, VALUE), (_notes(change) + subject, PLAIN)], width, len(head))


def api_kip_objects(key: int) -> list[dict[str, Any]]:
    """Return the proposals that changed an API as objects."""
    return [
        {"kip": f"KIP-{number}", "versions": change.versions, "fields": change.fields}
        for number, change in _of_api(key)
    ]


def rules_of(number: int) -> list[Rule]:
    """Return the rules whose source, or whose subject, is a proposal."""
    word = re.compile(rf"KIP-{number}\b")
    return [
        rule
        for rule in EVERY_RULE
        if word.search(rule.source) or (rule.machine is not None and word.search(rule.machine.about))
    ]


def _rule_lines(rules: list[Rule], width: int | None) -> Iterator[Line]:
    if len(rules) > _MANY_RULES:
        line: Line = [("  ", PLAIN), (", ".join(rule.code for rule in rules), CODE)]
        yield from folded(line, width or 100, 2)
        return
    wide = max(len(rule.code) for rule in rules)
    for rule in rules:
        head = f"  {rule.code.ljust(wide)}  "
        yield from hanging([(head, CODE), (rule.text, PLAIN)], width, len(head))


def kips_lines(width: int | None) -> Iterator[Line]:
    """Return all known proposals, with their releases."""
    yield [("proposals", API), ("  that changed the protocol; kshark explain KIP-932 says what one brought", DIM)]
    spans = {
        number: " to ".join(dict.fromkeys((kip.releases[0][0], kip.releases[-1][0]))) for number, kip in KIPS.items()
    }
    wide = max(map(len, spans.values()))
    for number, kip in KIPS.items():
        head = f"  KIP-{number}".ljust(12) + spans[number].ljust(wide) + "  "
        yield from hanging([(head, LABEL), (kip.title, PLAIN)], width, len(head))


def kip_object(number: int, registry: Registry) -> dict[str, Any]:
    """Return a proposal as an object; the versions of an API that it brought as a whole are None.

    Raises KeyError for one that is not in KIPS.
    """
    kip = KIPS[number]
    return {
        "kip": f"KIP-{number}",
        "title": kip.title,
        "releases": [{"release": release, "stage": stage or None} for release, stage in kip.releases],
        "apis": [
            {
                "api_key": change.key,
                "api": change.api,
                "versions": change.versions or None,
                "fields": change.fields,
            }
            for change in _changes(number, kip, registry)
        ],
        "structures": list(kip.structures),
        "errors": [{"error_code": error.value, "error": error.name} for error in kip.errors],
        "rules": [rule.code for rule in rules_of(number)],
        "changed_by": [f"KIP-{other}" for other in kip.see],
    }
