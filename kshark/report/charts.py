"""Charts as SVG in the page's colours; these are CSS variables, so light and dark mode share one drawing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kshark.errors import UsageError
from kshark.report.facts import Capture, Cell, Timed
from kshark.units import shortened

try:
    import altair as alt
    import vl_convert
except ImportError as missing:
    raise UsageError(f"a report needs {missing.name}: pip install 'kshark[report]'") from None

#: Verdicts, the worst last, so that it is drawn on top.
_COLOURS: Final = {"note": "var(--note)", "unknown": "var(--unknown)", "violation": "var(--violation)"}
_SEVERITY: Final = {verdict: rank for rank, verdict in enumerate(_COLOURS)}
_TITLES: Final = {"cause": "by cause", "client": "by client", "group": "by group"}
#: Most rows of each dimension; all others share one more row.
_ROWS: Final = 8
_ROW_PX: Final = 24
#: Pixels of the narrowest bin.
_BIN_PX: Final = 9
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND


class Axis(NamedTuple):
    """The time axis that all rows share: bins from `begin_ns` on, and the format of its labels."""

    begin_ns: int
    end_ns: int
    bin_ns: int
    plot_px: int
    label_px: int

    @property
    def domain(self) -> list[str]:
        margin_ns = max(self.bin_ns, (self.end_ns - self.begin_ns) // 60)
        return [_moment(self.begin_ns - margin_ns), _moment(self.end_ns + margin_ns)]

    @property
    def ticks(self) -> int:
        """The number of ticks: as many as fit, and at most one for each second."""
        seconds = (self.end_ns - self.begin_ns) // _SECOND
        return min(max(3, self.plot_px // 110), seconds) if seconds >= 2 else 3

    @property
    def format(self) -> str:
        """The time format: only the parts in which the ticks differ."""
        span_ns = self.end_ns - self.begin_ns
        return (
            "%S.%L s"
            if span_ns < 2 * _SECOND
            else "%H:%M:%S"
            if span_ns < _DAY // 4
            else "%H:%M"
            if span_ns < _DAY
            else "%b %d %H:%M"
        )


class Row(NamedTuple):
    """A name of one dimension, and the number of findings by the middle of the bin and the verdict."""

    name: str
    counts: Counter[tuple[int, str]]


def findings_over_time(timed: Timed, captures: Sequence[Capture], width: int) -> str | None:
    """Draw findings over the captures' time, a row for each cause, client and group; None without findings."""
    if not timed.cells:
        return None
    axis = axis_of(timed, captures, width)
    panels = {title: rows for dimension, title in _TITLES.items() if (rows := rows_of(timed, dimension, axis))}
    most = max(count for rows in panels.values() for row in rows for count in row.counts.values())
    charts = [_panel(title, rows, axis, most, last=title == [*panels][-1]) for title, rows in panels.items()]
    return _inline(vl_convert.vegalite_to_svg(_styled(alt.vconcat(*charts, spacing=8)).to_dict()), width)


def axis_of(timed: Timed, captures: Sequence[Capture], width: int) -> Axis:
    """Return an axis as wide as the page, with bins that can be distinguished."""
    label_px = 216 if width > 500 else 136
    plot_px = width - label_px - 30
    ends = [
        time_ns
        for capture in captures
        for time_ns in (capture.first_time_ns, capture.last_time_ns)
        if time_ns is not None
    ]
    begin_ns = min([*ends, *(cell.begin_ns for cell in timed.cells)])
    end_ns = max([*ends, *(cell.begin_ns + timed.width_ns for cell in timed.cells)])
    return Axis(begin_ns, end_ns, max(timed.width_ns, -(-(end_ns - begin_ns) * _BIN_PX // plot_px)), plot_px, label_px)


def rows_of(timed: Timed, dimension: str, axis: Axis) -> list[Row]:
    """Return the rows of a dimension: names with violations first, then those with most findings.

    Names beyond the limit share one row.
    """
    cells = [cell for cell in timed.cells if cell.dimension == dimension]
    ranked = _ranked(cells)
    shown = {name: Row(shortened(name, 40) or "unnamed", Counter()) for name in ranked[:_ROWS]}
    others = Row(f"{len(ranked) - _ROWS} others", Counter())
    for cell in cells:
        middle_ns = axis.begin_ns + (cell.begin_ns - axis.begin_ns) // axis.bin_ns * axis.bin_ns + axis.bin_ns // 2
        shown.get(cell.name, others).counts[middle_ns, cell.verdict] += cell.count
    return [*shown.values(), *([others] if others.counts else [])]


def _ranked(cells: Sequence[Cell]) -> list[str]:
    counts: Counter[str] = Counter()
    worst: dict[str, int] = {}
    for cell in cells:
        counts[cell.name] += cell.count
        worst[cell.name] = max(worst.get(cell.name, 0), _SEVERITY[cell.verdict])
    return sorted(counts, key=lambda name: (-worst[name], -counts[name], name))


def _panel(title: str, rows: Sequence[Row], axis: Axis, most: int, *, last: bool) -> Any:
    points = [
        {"at": _moment(at), "row": str(index), "verdict": verdict, "count": count, "severity": _SEVERITY[verdict]}
        for index, row in enumerate(rows)
        for (at, verdict), count in sorted(row.counts.items())
    ]
    names = " : ".join(f"datum.value == '{index}' ? {_quoted(row.name)}" for index, row in enumerate(rows)) + " : ''"
    ticks = alt.Axis(
        format=axis.format, tickCount=axis.ticks, labels=last, ticks=last, labelOverlap=True, labelSeparation=12
    )
    label = alt.Axis(
        labelExpr=names, labelLimit=axis.label_px, minExtent=axis.label_px, maxExtent=axis.label_px, ticks=False
    )
    size = alt.Scale(type="sqrt", domain=[0, max(4, most)], range=[24, 320])
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_circle(opacity=1, stroke="var(--ground)", strokeWidth=1)
        .encode(
            x=alt.X("at:T", title=None, scale=alt.Scale(type="utc", domain=axis.domain, nice=False), axis=ticks),
            y=alt.Y("row:N", title=None, sort=[str(index) for index in range(len(rows))], axis=label),
            size=alt.Size("count:Q", legend=None, scale=size),
            color=alt.Color(
                "verdict:N", legend=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
            ),
            order=alt.Order("severity:Q"),
        )
        .properties(
            width=axis.plot_px,
            height=_ROW_PX * len(rows),
            title=alt.TitleParams(title, anchor="start", frame="group", offset=4),
        )
    )


def _quoted(text: str) -> str:
    """Return a text as a string literal of Vega's expressions; names from captures may have any characters."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _moment(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / _SECOND, UTC).isoformat(timespec="milliseconds")


def _styled(chart: Any) -> Any:
    line = {"domainColor": "var(--line)", "tickColor": "var(--line)", "gridColor": "var(--line)"}
    return (
        chart.configure(background="transparent", font="system-ui, sans-serif", padding=4)
        .configure_view(stroke=None)
        .configure_axis(labelColor="var(--ink)", labelFontSize=12, grid=True, **line)
        .configure_title(color="var(--muted)", fontSize=12, fontWeight="normal")
    )


def _inline(svg: str, width: int) -> str:
    """Return the SVG for use inside a page: without namespaces, and at most as wide as it was made for."""
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    return svg.replace("<svg ", f'<svg role="img" style="max-width:{width}px" ', 1)
