"""`kshark explain` of a code, an error, the tables' columns and the common fields."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from dissectors.enums import ErrorCode
from dissectors.errors import REMEDY, RETRIABLE, SHARE_GROUPS
from kshark.analysis import Rule
from kshark.analysis.session import UNEXPLAINED
from kshark.anomaly import Entry
from kshark.conditions.fields import COMMON
from kshark.output.catalogue import CODES, group_of, number_of
from kshark.output.spans import API, CODE, DIM, ERROR, GOOD, LABEL, NOTE, PLAIN, WARN, Line
from kshark.tables import COMMON as COMMON_COLUMNS
from kshark.tables import TABLES, Column

_SEVERITY: Final = {"error": ERROR, "warn": WARN, "note": NOTE, "chat": DIM}
_WIDTH: Final = 100
#: What a filter may say of a field.
_TESTS: Final = {
    "kafka.member_id": "it is there, and not null",
    "kafka.error_code == INVALID_SHARE_SESSION_EPOCH": "some occurrence is equal; errors, APIs and the like by number or name",
    "kafka.share_session_epoch >= 1": "some occurrence is; also < <= >",
    "kafka.error_code != 0": "there is one, and none is equal",
    "kafka.error_code any_ne 0": "some occurrence differs; all_eq: none does",
    "kafka.api_key in {76 78..79}": "some occurrence is in the set; not in: none is",
    'kafka.client_id contains "raw"': "that text is in it, or those bytes",
    'kafka.group_id matches "^sg-[0-9]+$"': "a regular expression finds something in it, upper and lower case alike",
    "ip.addr == 10.0.0.0/8": "an address, or a network's",
    'frame.time_epoch > "2026-11-21T14:03:07Z"': "a time, or seconds since 1970",
    "kafka.latency_ms > 1.5s": "milliseconds, or with another unit",
    "! && || ( )": "also not, and, or",
}


def code_lines(entry: Entry | Rule) -> Iterator[Line]:
    """A catalogue entry: what is said of it is what its row says."""
    number = number_of(entry)
    rule = f"rule {number} · " if number is not None else ""
    kind = "finding" if isinstance(entry, Rule) else "weird"
    yield [(entry.code, CODE), (f"  {rule}{group_of(entry)} · {kind}", DIM)]
    yield from _wrapped(entry.text)
    yield []
    yield from _rule_facts(entry) if isinstance(entry, Rule) else _weird_facts(entry)


def _weird_facts(entry: Entry) -> Iterator[Line]:
    yield [("severity   ", LABEL), (entry.severity, _SEVERITY[entry.severity])]
    yield from _facts(("blame", " or ".join(entry.blame)), ("reference", entry.reference))


def _rule_facts(rule: Rule) -> Iterator[Line]:
    if rule.machine is not None:
        yield from _facts(("judges", rule.machine.about))
    if rule.when is not None:
        answer = f", answered with {rule.answer.told}" if rule.answer is not None else ""
        yield from _facts(("when", f"{rule.when.told}{answer}"))
    yield from _facts(("verdict", _verdicts(rule)), ("may blame", " or ".join(rule.blame) or "nobody"))
    yield from _facts(("causes", ", ".join(rule.causes)))
    yield from _facts(("exit code", "1 on a violation" if rule.accuses else "0"), ("reference", rule.source))


def _verdicts(rule: Rule) -> str:
    if not rule.accuses:
        return "always a note: no rule is broken" if "note" in rule.verdicts else "always unknown"
    note = ", a note where nobody broke a rule" if "note" in rule.verdicts else ""
    unexplained = [other.code for reply, other in UNEXPLAINED.items() if any(reply in check.replies for check in rule.checks)]
    otherwise = "unknown" if "unknown" in rule.verdicts else " or ".join(unexplained)
    return f"violation where the capture proves it{note}, else {otherwise}"


def _facts(*facts: tuple[str, str]) -> Iterator[Line]:
    """A line each; nothing for what is empty."""
    for name, text in facts:
        first, *more = textwrap.wrap(text, _WIDTH - 11, break_on_hyphens=False) or [""]
        if first:
            yield [(name.ljust(11), LABEL), (first, PLAIN)]
            yield from ([(" " * 11 + line, PLAIN)] for line in more)


def _wrapped(text: str, indent: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False):
        yield [(line, PLAIN)]


def error_lines(error: ErrorCode) -> Iterator[Line]:
    """An error code: whether a retry may help, which share-group API returns it and why."""
    if error is ErrorCode.NONE:
        yield [("0 NONE", CODE), ("  no error", GOOD)]
        return
    again = ("retriable", GOOD) if error in RETRIABLE else ("not retriable", WARN)
    yield [(f"{error.value} {error.name}", CODE), ("  ", PLAIN), again]
    sent = SHARE_GROUPS.get(error, ())
    for (api, level), causes in groupby(sent, key=lambda each: (each.api, each.level)):
        yield []
        yield [(f"{api}, {level}", API)]
        for each in causes:
            yield from ([(("  - " if index == 0 else "    ") + line[0][0], PLAIN)] for index, line in enumerate(_wrapped(each.cause)))
    if error in REMEDY:
        yield []
        yield [("what a client does then  ", LABEL), (REMEDY[error], PLAIN)]


def api_error_lines(api: str) -> Iterator[Line]:
    """Errors that an API of share groups returns; nothing for other APIs."""
    codes = [error for error, sent in SHARE_GROUPS.items() if any(re.search(rf"\b{api}\b", each.api) for each in sent)]
    if codes:
        yield []
        yield [("errors", API), ("  kshark explain NUMBER says why", DIM)]
    for error in codes:
        yield [(f"  {error.value:>3} {error.name}", PLAIN)]


def catalogue_lines() -> Iterator[Line]:
    """Every code, by group."""
    width = max(map(len, CODES))
    for group, entries in groupby(CODES.values(), key=_shelf):
        yield [(group, API)]
        for entry in entries:
            number = number_of(entry)
            rule = "" if number is None else str(number)
            yield [("  " + entry.code.ljust(width), CODE), (rule.rjust(4) + "  ", DIM), (entry.text, PLAIN)]
        yield []
    yield [("also: kshark explain ShareFetch (an API's fields), 123 (an error), tables, fields", DIM)]


def _shelf(entry: Entry | Rule) -> str:
    return "rules" if isinstance(entry, Rule) else entry.group


def table_lines() -> Iterator[Line]:
    """The tables of `kshark export` and their columns."""
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
    """Names for `-e` and `-Y`."""
    width = max(map(len, COMMON)) + 2
    for name, field in COMMON.items():
        yield [("  " + name.ljust(width), LABEL), (field.about, PLAIN)]
    yield []
    yield from _wrapped(
        'Any field of a body: "kafka." and its path, as in kafka.topics.partitions.partition_index, or the end of its path, as in '
        "kafka.share_session_epoch; the end alone means every field of a message that ends so, kafka.error_code every error code at "
        "any depth. kshark explain ShareFetch shows an API's fields."
    )
    yield []
    yield [("filters", API), ("  -Y 'kafka.api == ShareFetch && (kafka.error_code > 0 || kafka.latency_ms > 500)'", DIM)]
    width = max(map(len, _TESTS)) + 2
    for test, about in _TESTS.items():
        yield [("  " + test.ljust(width), LABEL), (about, PLAIN)]
