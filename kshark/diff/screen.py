"""The comparison as text: at most 24 lines on 80 columns, what got worse first; tables of all rows for `-V`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kshark.diff.comparison import Comparison
from kshark.diff.difference import GRADED, Difference
from kshark.diff.profile import Profile
from kshark.output.catalogue import CODES
from kshark.output.spans import API, CODE, DIM, ERROR, GOOD, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import counted, duration, number, safe, shortened, size

_LINES: Final = 23
_COLUMNS: Final = 80
#: Kinds whose changes have a line on the screen.
_CHANGES: Final = ("release", "client", "version", "load", "api")
#: Most characters of a line that sums up, about two lines of the screen.
_TEXT: Final = 145
#: Lines that are kept for what did not get worse.
_LEAST_REST: Final = 9
_STYLES: Final = {"worse": ERROR, "new": WARN, "better": GOOD, "gone": GOOD, "not comparable": DIM, "same": DIM}


def screen(comparison: Comparison, width: int | None) -> Iterator[Line]:
    """Return what got worse, then lines that sum up the rest, then the totals. `width` None: lines of any length."""
    head = [line for part in _remarks(comparison) for line in folded(part, width, 2)]
    rest = [[*folded(part, width, 2)] for part in _rest(comparison)]
    room = _LINES - _height(head) - _height([*summary_lines(comparison, width)]) - 1
    yield from head
    worse = [*_worse(comparison, width, room - min(_LEAST_REST, sum(map(_height, rest))))]
    yield from worse
    if head or worse:
        yield []
    room -= _height(worse)
    for lines in rest:
        room -= _height(lines)
        if room >= 0:
            yield from lines
    yield from summary_lines(comparison, width)


def summary_lines(comparison: Comparison, width: int | None) -> Iterator[Line]:
    """Return the totals."""
    yield from folded(_summary(comparison), width, 2)


def _worse(comparison: Comparison, width: int | None, room: int) -> Iterator[Line]:
    """Return a sentence and the advice for each row that got worse, as far as there is room; the first always."""
    of_all_causes = {row.code for row in comparison.worse if row.cause is None}
    rows = [row for row in comparison.worse if row.cause is None or row.code not in of_all_causes]
    shown = 0
    for row in rows:
        where = [(f" First: packet {row.packet}.", DIM)] if row.packet is not None else []
        sentence = [*folded([(safe(row.sentence), VALUE), *where], width, 2)]
        advice = [*folded([("  → ", DIM), (text, PLAIN)], width, 4)] if (text := _advice(row)) else []
        left = room - (row is not rows[-1])
        lines = next((lines for lines in ([*sentence, *advice], sentence) if _height(lines) <= left), [])
        if not lines and shown:
            break
        shown += 1
        room -= _height(lines or sentence)
        yield from lines or sentence
    if shown < len(rows):
        yield [(f"And {counted(len(rows) - shown, 'more row')} that got worse: -V.", DIM)]


def _advice(row: Difference) -> str:
    """Return what to do: the advice of the rule, or where an error is explained."""
    if row.code is not None:
        return CODES[row.code].advice
    error = row.name.rpartition(" ")[2]
    return f"kshark explain {error}" if row.kind == "error" and error.isidentifier() else ""


def _remarks(comparison: Comparison) -> Iterator[Line]:
    for which, profile in (("Before", comparison.before), ("After", comparison.after)):
        if profile.remarks:
            more = len(profile.remarks) - 1
            text = f" And {counted(more, 'more defect')}: kshark check." if more else ""
            yield [(f"{which}: ", DIM), (shortened(profile.remarks[0], _TEXT) + text, WARN)]


def _rest(comparison: Comparison) -> Iterator[Line]:
    """Return the lines about rows that did not get worse, the most important first."""
    rows = [row for row in comparison.rows if not row.is_worse]
    yield from _events(rows)
    changed = [row for row in rows if row.kind in _CHANGES and row.verdict in ("changed", "new", "gone")]
    of_kinds = sorted(changed, key=lambda row: _CHANGES.index(row.kind))
    facts = [row for row in of_kinds if row.kind in ("release", "client") or row.verdict == "changed"]
    yield from _sentences("Changed: ", API, facts)
    yield from _sentences("Better: ", GOOD, comparison.better)
    for kind, title in (("note", "No rule broken, but more often: "), ("unproved", "Not proved, but more often: ")):
        apart = [row for row in rows if row.kind == kind and row.verdict in ("new", "worse")]
        yield from _names(title, WARN, apart)
    yield from _names("May be chance: ", DIM, [*_by_chance(rows)])
    yield from _names("Not comparable: ", DIM, [*_not_comparable(rows)])
    for which, verdict in (("before", "gone"), ("after", "new")):
        only = [row for row in rows if row.kind == "api" and row.verdict == verdict]
        yield from _names(f"APIs only {which}: ", DIM, only)


def _events(rows: Sequence[Difference]) -> Iterator[Line]:
    """Return the events of one capture that may be chance: the first as a sentence, which says what happened."""
    for which, verdict in (("after", "new"), ("before", "gone")):
        events = [row for row in rows if row.kind == "event" and row.verdict == verdict and row.may_be_chance]
        for row in events[:1]:
            more = f" {counted(len(events) - 1, 'more kind')} of events." if len(events) > 1 else ""
            title = f"Only {which}, may be chance: "
            text = f"{shortened(row.example, _TEXT - len(title) - len(more))}{more}"
            yield [(title, WARN), (text, VALUE), (f" {row.code}", CODE)]


def _by_chance(rows: Iterable[Difference]) -> Iterator[Difference]:
    return (row for row in rows if row.may_be_chance and row.verdict == "same" and row.kind in GRADED)


def _not_comparable(rows: Iterable[Difference]) -> Iterable[Difference]:
    """Return what cannot be compared, the gravest after the change first. Percentiles and rules without a finding are
    left out: these are many."""
    found = (row for row in rows if row.verdict == "not comparable" and row.kind not in ("latency", "wait", "coverage"))
    return sorted(found, key=lambda row: (not (isinstance(row.after, dict) and row.after.get("count")), -row.weight))


def _sentences(title: str, style: str, rows: Sequence[Difference]) -> Iterator[Line]:
    """Return a line with as many sentences as fit; nothing without rows."""
    text, shown = "", 0
    for row in rows:
        longer = f"{text} {row.sentence}".lstrip()
        if shown and len(longer) > _TEXT:
            break
        text, shown = longer, shown + 1
    if rows:
        more = f" {counted(len(rows) - shown, 'more row')}: -V." if shown < len(rows) else ""
        yield [(title, style), (safe(text) + more, PLAIN)]


def _names(title: str, style: str, rows: Sequence[Difference]) -> Iterator[Line]:
    """Return a line with the names of as many rows as fit; nothing without rows."""
    text, shown = "", 0
    for row in rows:
        longer = f"{text}, {_named(row)}".removeprefix(", ")
        if shown and len(longer) > _TEXT - len(title):
            break
        text, shown = longer, shown + 1
    if rows:
        yield [(title, style), (safe(text) + (f" and {len(rows) - shown} more" if shown < len(rows) else ""), PLAIN)]


def _named(row: Difference) -> str:
    """Return the name of a row with its two numbers."""
    before, after = (_short(value) for value in (row.before, row.after))
    return f"{row.name} ({before} → {after})" if row.kind != "api" else row.name


def _short(value: Any) -> str:
    match value:
        case {"count": count, "of": of}:
            return f"{number(count)} of {number(of)}" if count else "0"
        case {"ms": ms}:
            return duration(round(ms * 1e6))
        case {"per_second": rate}:
            return f"{rate:,.1f}"
        case [*texts]:
            return ", ".join(map(str, texts))
        case None:
            return "-"
    return str(value)


def _summary(comparison: Comparison) -> Line:
    worse, better = len(comparison.worse), len(comparison.better)
    chance = sum(row.may_be_chance for row in comparison.rows)
    same = sum(row.verdict == "same" and not row.may_be_chance for row in comparison.rows)
    not_comparable = sum(row.verdict == "not comparable" for row in comparison.rows)
    return [
        (f"{number(worse)} worse", ERROR if worse else GOOD),
        (
            f" · {number(better)} better · {number(same)} the same · {number(chance)} may be chance · "
            f"{number(not_comparable)} not comparable · before: {_of(comparison.before)} · after: "
            f"{_of(comparison.after)}",
            DIM,
        ),
    ]


def _of(profile: Profile) -> str:
    took = f" in {duration(round(profile.seconds * 1e9))}" if profile.seconds else ""
    return f"{counted(profile.requests, 'request')}{took}"


def _height(lines: Sequence[Line]) -> int:
    """Return the number of lines on a screen of 80 columns."""
    return sum(max(1, -(-sum(len(text) for text, _ in line) // _COLUMNS)) for line in lines)


_TABLE: Final = (
    Column("name", elastic=24),
    Column("before", elastic=10),
    Column("after", elastic=10),
    Column("change", right=True, drop=1),
    Column("verdict"),
)


def tables(comparison: Comparison, width: int | None) -> Iterator[Line]:
    """Return all rows, a table for each kind."""
    kinds = dict.fromkeys(row.kind for row in comparison.rows)
    for kind in kinds:
        rows = [row for row in comparison.rows if row.kind == kind]
        yield []
        yield [(_TITLES[kind], API)]
        yield from table(_TABLE, [_cells(row) for row in rows], width, indent=2)


_TITLES: Final = {
    "event": "events, of all requests",
    "finding": "broken rules, by code, cause and party",
    "error": "errors, of the API's answers",
    "unanswered": "requests whose connection the broker ended instead of an answer",
    "latency": "latency of the broker's work",
    "throttling": "throttled answers",
    "sessions": "share sessions",
    "rebalances": "rebalances",
    "note": "notes: no rule was broken",
    "unproved": "not proved",
    "client": "clients and their versions",
    "release": "releases of brokers",
    "version": "versions of APIs",
    "api": "APIs, of all requests",
    "wait": "time for which brokers wait on purpose",
    "load": "load, a second",
    "coverage": "rules that only one capture put to the test: how often",
}


def _cells(row: Difference) -> list[Cell]:
    verdict = "may be chance" if row.may_be_chance else row.verdict
    style = ERROR if row.is_worse else _STYLES.get(row.verdict, VALUE) if row.kind not in _CHANGES else PLAIN
    return [
        [(safe(row.name), CODE if row.code else VALUE)],
        _value(row, row.before),
        _value(row, row.after),
        "" if row.change is None else f"×{row.change:.3g}",
        [(verdict, style)],
    ]


def _value(row: Difference, value: Any) -> Cell:
    if row.kind == "load" and row.name != "requests" and value is not None:
        return size(round(value["per_second"]))
    return safe(_short(value))
