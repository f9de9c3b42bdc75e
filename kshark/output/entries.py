"""`kshark explain` of a code, a cause, the tables' columns and the common fields."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Final

from kshark.analysis import RULES, Rule
from kshark.analysis.rules import BOOK
from kshark.analysis.rules.causes import ADVICE, CAUSES
from kshark.analysis.states.tables import SESSION
from kshark.anomaly import CATALOGUE, Entry
from kshark.conditions.condition import ALWAYS, Condition
from kshark.conditions.fields import COMMON
from kshark.output.catalogue import EVERY_RULE, JUDGED_BY, group_of, number_of
from kshark.output.rule_table import rule_lines
from kshark.output.spans import API, CODE, DIM, ERROR, GOOD, LABEL, NOTE, PLAIN, WARN, Line
from kshark.tables import COMMON as COMMON_COLUMNS
from kshark.tables import TABLES, Column
from kshark_dissectors.enums import ApiKey

_SEVERITY: Final = {"error": ERROR, "warn": WARN, "note": NOTE, "chat": DIM}
_WIDTH: Final = 100
#: The notation of exchanges (kshark/analysis/rules/README.md), by the pattern that needs the explanation.
_LEGEND: Final = {
    "→": "a request → the error code of its response",
    "…": "… is no response yet",
    r"on [B-Z]: |A closes": "A and B are connections",
    r"by [b-z]: ": "a and b are members",
    r"t\[0\]": "t[0] is a partition",
    "delivery": "delivery is the delivery count",
    "given": "given is the member epoch of the response",
}
#: The tests of a filter, with explanations.
_TESTS: Final = {
    "kafka.member_id": "the field is present and not null",
    "kafka.error_code == INVALID_SHARE_SESSION_EPOCH": "an occurrence is equal; errors, APIs and the like by number "
    "or name",
    "kafka.share_session_epoch >= 1": "an occurrence is greater or equal; also < <= >",
    "kafka.error_code != 0": "the field is present, and no occurrence is equal",
    "kafka.error_code any_ne 0": "an occurrence differs; all_eq: none differs",
    "kafka.api_key in {76 78..79}": "an occurrence is in the set; not in: none is",
    'kafka.client_id contains "raw"': "contains that text, or these bytes",
    'kafka.group_id matches "^sg-[0-9]+$"': "a regular expression matches somewhere; ignores case",
    "ip.addr == 10.0.0.0/8": "an address, or a network",
    'frame.time_epoch > "2026-11-21T14:03:07Z"': "a time, or seconds since 1970",
    "kafka.latency_ms > 1.5s": "milliseconds, or with another unit",
    "! && || ( )": "or in words: not, and, or",
}


def code_lines(entry: Entry | Rule) -> Iterator[Line]:
    """Return the page of a catalogue entry, made from its row."""
    number = number_of(entry)
    rule = f"rule {number} · " if number is not None else ""
    kind = "finding" if isinstance(entry, Rule) else "weird"
    yield [(entry.code, CODE), (f"  {rule}{group_of(entry)} · {kind}", DIM)]
    yield from wrapped_lines(entry.text)
    yield []
    yield from _rule_facts(entry) if isinstance(entry, Rule) else _weird_facts(entry)


def _weird_facts(entry: Entry) -> Iterator[Line]:
    judged = JUDGED_BY.get(entry.code)
    yield from facts_lines(("advice", entry.advice if judged is None else judged.advice))
    yield [("severity   ", LABEL), (entry.severity, _SEVERITY[entry.severity])]
    yield from facts_lines(
        ("blame", " or ".join(entry.blame)),
        ("judged as", "" if judged is None else judged.code),
        ("reference", entry.reference),
    )


def _rule_facts(rule: Rule) -> Iterator[Line]:
    yield from facts_lines(("must be", rule.must), ("advice", rule.advice), ("test it by", rule.provoked_by))
    if rule.machine is not None:
        yield from facts_lines(("judges", rule.machine.about))
    if rule.weird:
        yield from facts_lines(("judges", " ".join(CATALOGUE[code].text for code in rule.weird)))
    if (broken := rule.broken_by) is not None:
        yield from facts_lines(("when", _when(rule, broken)))
    yield from facts_lines(("verdict", _verdicts(rule)), ("may blame", " or ".join(rule.blame) or "none"))
    yield from facts_lines(("exit code", "1 on a violation" if rule.accuses else "0"), ("reference", rule.source))
    yield from facts_lines(("tickets", ", ".join(rule.tickets)), ("rests on", _rests_on(rule)))
    if rule.causes:
        yield []
        yield [("causes", API)]
        width = max(map(len, rule.causes)) + 2
        for cause in rule.causes:
            yield [("  " + cause.ljust(width), CODE), (CAUSES.get(cause, ""), PLAIN)]
    if rule.wrong:
        yield []
        yield from conversation_lines(rule)


def conversation_lines(rule: Rule) -> Iterator[Line]:
    """Return the requests that break a rule beside those that keep it, and the meaning of their signs."""
    if rule.wrong:
        bad, good = (("wrong", ERROR), ("right", GOOD)) if rule.accuses else (("noted", WARN), ("not noted", GOOD))
        yield from _beside((bad[0], rule.wrong.split("; "), bad[1]), (good[0], rule.right.split("; "), good[1]))
        legend = "; ".join(
            explanation for sign, explanation in _LEGEND.items() if re.search(sign, f"{rule.wrong}; {rule.right}")
        )
        yield from ([(line, DIM)] for line in textwrap.wrap(legend, _WIDTH))


def _rests_on(rule: Rule) -> str:
    """Return in words what findings of a rule rest on besides the packets that they name."""
    return "; ".join(basis.sentence for basis in rule.rests_on) or "the packets that a finding names, and nothing else"


def _when(rule: Rule, broken: Condition) -> str:
    """Return the requests that break a rule, with their response, in words."""
    asked = " or ".join("".join(part.title() for part in ApiKey(key).name.split("_")) for key in rule.apis)
    condition = "" if broken == ALWAYS else f" with {broken.description}"
    return f"{asked}{condition}" + (
        f", if the response has {rule.answer.description}" if rule.answer is not None else ""
    )


def _beside(*columns: tuple[str, Sequence[str], str]) -> Iterator[Line]:
    """Return columns with titles: side by side, or below each other if they are too wide.

    Each column is a title, its lines, and the title's style.
    """
    width = max(len(line) for _, lines, _ in columns[:-1] for line in lines) + 6
    if width + max(map(len, columns[-1][1])) > _WIDTH:
        for index, (title, lines, style) in enumerate(columns):
            yield from ([], [(title, style)]) if index else ([(title, style)],)
            yield from ([("  " + line, PLAIN)] for line in lines)
        return
    *others, (last, _, style) = columns
    yield [*((title.ljust(width), style) for title, _, style in others), (last, style)]
    for row in zip_longest(*(lines for _, lines, _ in columns), fillvalue=""):
        yield [("".join(("  " + line).ljust(width) for line in row).rstrip(), PLAIN)]


def cause_lines(cause: str) -> Iterator[Line]:
    """Return the page of a cause: its meaning, and the rules that use it, with advice."""
    yield [(cause, CODE), ("  a cause", DIM)]
    yield from wrapped_lines(CAUSES[cause])
    if cause in ADVICE:
        yield from facts_lines(("advice", ADVICE[cause]))
    for rule in EVERY_RULE:
        if cause in rule.causes:
            yield []
            yield [(rule.code, CODE), ("  " + rule.text, PLAIN)]
            yield from facts_lines(("advice", rule.advice))


def _verdicts(rule: Rule) -> str:
    if not rule.accuses:
        if "note" not in rule.verdicts:
            return "always unknown"
        return f"{'a note or unknown' if 'unknown' in rule.verdicts else 'always a note'}: not a violation"
    note = ", a note if no rule was broken" if "note" in rule.verdicts else ""
    otherwise = "unknown" if "unknown" in rule.verdicts else " or ".join(_unexplained(rule))
    return f"violation if the capture proves it{note}, otherwise {otherwise or 'no finding'}"


def _unexplained(rule: Rule) -> list[str]:
    """Return the codes that a refusal gets if the capture does not prove that this rule explains it."""
    if rule.machine is SESSION:
        return [
            other.code
            for reply, other in BOOK.catch_alls.items()
            if any(check.is_about_reply(reply) for check in rule.checks)
        ]
    return [other.code for other in RULES if other.verdicts == ("unknown",) and other.machine is rule.machine]


def facts_lines(*facts: tuple[str, str]) -> Iterator[Line]:
    """Return a line for each fact; none for an empty one."""
    for name, text in facts:
        first, *more = textwrap.wrap(text, _WIDTH - 11, break_on_hyphens=False) or [""]
        if first:
            yield [(name.ljust(11), LABEL), (first, PLAIN)]
            yield from ([(" " * 11 + line, PLAIN)] for line in more)


def wrapped_lines(text: str, indent: str = "") -> Iterator[Line]:
    """Return a text in lines of at most 100 columns."""
    for line in textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False):
        yield [(line, PLAIN)]


def catalogue_lines(width: int | None) -> Iterator[Line]:
    """Return all codes: weirds by group, then the rules."""
    wide = max(map(len, CATALOGUE))
    for group, entries in groupby(CATALOGUE.values(), key=attrgetter("group")):
        yield [(group, API)]
        for entry in entries:
            rule = str(number_of(entry) or "")
            yield [("  " + entry.code.ljust(wide), CODE), (rule.rjust(4) + "  ", DIM), (entry.text, PLAIN)]
        yield []
    yield [("rules", API)]
    yield from rule_lines(width)
    yield []
    yield [
        (
            "also: kshark explain ShareFetch (an API's fields), 123 (an error), tables, fields, metrics, rules (these "
            "alone)",
            DIM,
        )
    ]


def table_lines() -> Iterator[Line]:
    """Return the tables of `kshark export` and their columns."""
    yield [("in every table", API)]
    yield from _columns(COMMON_COLUMNS)
    for table in TABLES.values():
        yield []
        yield [(table.name, API), (f"  one row per {table.rows}", DIM)]
        yield from _columns([column for column in table.columns if column not in COMMON_COLUMNS])


def _columns(columns: Iterable[Column]) -> Iterator[Line]:
    for column in columns:
        yield [("  " + column.name.ljust(24), LABEL), (column.type.ljust(10) + "  ", PLAIN), (column.about, DIM)]


def field_lines() -> Iterator[Line]:
    """Return the names for `-e` and `-Y`."""
    width = max(map(len, COMMON)) + 2
    for name, field in COMMON.items():
        yield [("  " + name.ljust(width), LABEL), (field.about, PLAIN)]
    yield []
    yield from wrapped_lines(
        'Any field of a body: "kafka." and its path, as in kafka.topics.partitions.partition_index, or the end of its '
        "path, as in kafka.share_session_epoch. The end of a path names every field of a message with this end; "
        "kafka.error_code names every error code at any depth. kshark explain ShareFetch shows an API's fields. A "
        "response without group_id and member_id has those of its request."
    )
    yield []
    yield [
        ("filters", API),
        ("  -Y 'kafka.api == ShareFetch && (kafka.error_code > 0 || kafka.latency_ms > 500)'", DIM),
    ]
    width = max(map(len, _TESTS)) + 2
    for test, about in _TESTS.items():
        yield [("  " + test.ljust(width), LABEL), (about, PLAIN)]
