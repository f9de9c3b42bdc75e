"""Findings over time: a strip for each cause, client and group, with a mark for the findings of a time bin.

A mark's shape and colour show the verdict, its size the number. Events are bands under the marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from math import sqrt
from typing import Final, NamedTuple

from kshark.report.bands import Band, drawn, longest
from kshark.report.facts import Capture, Cell, Timed
from kshark.report.window import Window, axis
from kshark.units import clock, counted, number, shortened

#: Verdicts, the worst last, so that it is drawn on top. Marks are named by the first letter and their size.
_VERDICTS: Final = ("note", "unknown", "violation")
_SEVERITY: Final = {verdict: rank for rank, verdict in enumerate(_VERDICTS)}
_TITLES: Final = {"cause": "by cause", "client": "by client", "group": "by group"}
#: Most rows of each dimension; all others share one more row.
_ROWS: Final = 8
#: Bins of the time axis, and pixels of a strip.
_BINS: Final = 90
STRIP: Final = 26
#: The radius of marks, in pixels, from the smallest to the largest.
_RADII: Final = (2.5, 3.5, 4.5, 6, 7.5)
#: Pixels from the middle of a strip to the marks of a verdict, where it has marks of several.
_OFFSETS: Final = {"note": 5, "unknown": 0, "violation": -5}
#: Characters of a label.
_LABEL: Final = 40


class Row(NamedTuple):
    """A name of one dimension, and the number of findings by the middle of the bin and the verdict."""

    name: str
    counts: Counter[tuple[int, str]]


class Strip(NamedTuple):
    """A labelled strip of a chart; `content`: what is in its SVG element; `meaning`: the same in words."""

    label: str
    meaning: str
    content: str


class Panel(NamedTuple):
    """Strips of one dimension."""

    title: str
    strips: list[Strip]


class Chart(NamedTuple):
    """Panels with one time axis."""

    panels: list[Panel]
    axis: str


def findings_over_time(timed: Timed, captures: Sequence[Capture], bands: Sequence[Band] = ()) -> Chart | None:
    """Draw findings over the captures' time, a strip for each event, cause, client and group; None without findings."""
    if not timed.cells:
        return None
    window = window_of(timed, captures)
    long = longest(bands)
    panels = {title: rows for dimension, title in _TITLES.items() if (rows := rows_of(timed, dimension, window))}
    most = max(count for rows in panels.values() for row in rows for count in row.counts.values())
    background = "".join(drawn(long, window, look="event plain"))
    strips = [Panel(title, [marked(row, window, most, background) for row in rows]) for title, rows in panels.items()]
    return Chart([*event_panel(bands, window), *strips], "".join(axis(window, 2)))


def window_of(timed: Timed, captures: Sequence[Capture]) -> Window:
    """Return the time span of the captures and their findings."""
    ends = [
        time_ns
        for capture in captures
        for time_ns in (capture.first_time_ns, capture.last_time_ns)
        if time_ns is not None
    ]
    first_ns = min([*ends, *(cell.begin_ns for cell in timed.cells)])
    return Window(first_ns, max([*ends, *(cell.begin_ns + timed.width_ns for cell in timed.cells)]))


def event_panel(bands: Sequence[Band], window: Window) -> Iterator[Panel]:
    """Yield the panel of events: a strip for each kind of event, those that lasted longest first."""
    kinds: dict[str, list[Band]] = {}
    for band in longest(bands, len(bands)):
        kinds.setdefault(band.finding.code, []).append(band)

    def lasted_ns(of_kind: list[Band]) -> int:
        return sum(band.length_ns for band in of_kind)

    ranked = sorted(kinds.items(), key=lambda item: (-lasted_ns(item[1]), item[0]))[:_ROWS]
    strips = []
    for code, of_kind in ranked:
        shown = longest(of_kind, 4 * _ROWS)
        times = "; ".join(band.when for band in shown[:_ROWS])
        meaning = f"{code}: {counted(len(of_kind), 'event')}, {times}"
        strips.append(Strip(code, meaning, "".join(drawn(shown, window, look="event strong"))))
    if strips:
        yield Panel("events", strips)


def rows_of(timed: Timed, dimension: str, window: Window) -> list[Row]:
    """Return the rows of a dimension: names with violations first, then those with most findings.

    Names beyond the limit share one row.
    """
    cells = [cell for cell in timed.cells if cell.dimension == dimension]
    ranked = _ranked(cells)
    shown = {name: Row(shortened(name, _LABEL) or "unnamed", Counter()) for name in ranked[:_ROWS]}
    others = Row(counted(len(ranked) - _ROWS, "other"), Counter())
    bin_ns = max(timed.width_ns, -(-(window.last_ns - window.first_ns) // _BINS), 1)
    for cell in cells:
        middle_ns = window.first_ns + (cell.begin_ns - window.first_ns) // bin_ns * bin_ns + bin_ns // 2
        shown.get(cell.name, others).counts[middle_ns, cell.verdict] += cell.count
    return [*shown.values(), *([others] if others.counts else [])]


def _ranked(cells: Sequence[Cell]) -> list[str]:
    counts: Counter[str] = Counter()
    worst: dict[str, int] = {}
    for cell in cells:
        counts[cell.name] += cell.count
        worst[cell.name] = max(worst.get(cell.name, 0), _SEVERITY[cell.verdict])
    return sorted(counts, key=lambda name: (-worst[name], -counts[name], name))


def marked(row: Row, window: Window, most: int, background: str = "") -> Strip:
    """Return the strip of a row; the largest mark stands for `most` findings."""
    totals: Counter[str] = Counter()
    several = len({verdict for _, verdict in row.counts}) > 1
    marks = []
    for (at_ns, verdict), count in sorted(row.counts.items(), key=lambda item: (_SEVERITY[item[0][1]], item[0][0])):
        totals[verdict] += count
        size = min(len(_RADII) - 1, int(len(_RADII) * sqrt((count - 1) / max(1, most - 1))))
        title = f"<title>{clock(at_ns, 1)}: {number(count)} {verdict}</title>"
        y = STRIP // 2 + (_OFFSETS[verdict] if several else 0)
        marks.append(f'<use href="#{verdict[0]}{size}" x="{window.at(at_ns)}%" y="{y}">{title}</use>')
    found = ", ".join(
        counted(totals[verdict], verdict, "unknown" if verdict == "unknown" else "")
        for verdict in reversed(_VERDICTS)
        if totals[verdict]
    )
    return Strip(row.name, f"{row.name}: {found}", background + "".join(marks))


def marks() -> str:
    """Return the definitions of all marks: a triangle for a violation, a square for an unknown, a circle for a note."""
    shapes = []
    for size, r in enumerate(_RADII):
        for verdict, shape in (
            ("violation", f'path d="M0 {-r}L{r} {r}H{-r}Z"'),
            ("unknown", f'rect x="{-r}" y="{-r}" width="{2 * r}" height="{2 * r}"'),
            ("note", f'circle r="{r}"'),
        ):
            shapes.append(f'<{shape} id="{verdict[0]}{size}" class="mark {verdict}"/>')
    return "".join(shapes)


def strip_svg(strip: Strip) -> str:
    """Return the SVG element of a strip, with what it shows in words."""
    label = escape(strip.meaning)
    return f'<svg class="strip" role="img" aria-label="{label}" width="100%" height="{STRIP}">{strip.content}</svg>'
