"""One picture of a share group or a member: events, findings, records and session epochs on one time axis.

An SVG that needs nothing else, with the colours of the page in light mode; as PNG for tickets that show no SVG.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain
from typing import Final, NamedTuple

from kshark.errors import UsageError
from kshark.report import timelines
from kshark.report.bands import Band, bands_of, concerning, drawn, is_within, longest
from kshark.report.charts import STRIP, Row, marked, marks, rows_of
from kshark.report.facts import MemberLine, Report
from kshark.report.group_records import KINDS
from kshark.report.mergeable import Bins
from kshark.report.style import drawing_style
from kshark.report.window import Window, axis
from kshark.units import counted, moment, number, safe, shortened

#: Pixels: the whole width, the column of labels, and the strips.
_WIDTH, _LABELS, _PLOT = 1080, 250, 800
_MARGIN: Final = 15
#: Most members that are drawn, and bars of a row of records.
_MEMBERS: Final = 6
_BARS: Final = 160
#: Characters of a line of text, lines of an event, and characters of a label.
_LINE, _LINES, _LABEL = 160, 3, 38
#: Pixels of a PNG for each one of the SVG.
_SCALE: Final = 2
_STYLE: Final = """
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 11px; }
svg text.title { font-size: 18px; font-weight: bold; fill: var(--ink); }
svg text.label { font-size: 12px; fill: var(--ink); }
svg text.legend { fill: var(--event-ink); }
svg .bar { fill: var(--tick); }
svg .ground { fill: var(--ground); }
svg line.row { stroke: var(--line); }
"""


class Subject(NamedTuple):
    """A share group to draw, and one of its members (None: all)."""

    group: str
    member: str | None = None

    def __str__(self) -> str:
        member = "" if self.member is None else f", member {shortened(self.member, 60)}"
        return f"Share group {shortened(self.group, 60)}{member}"


def png(svg: str) -> bytes:
    """Return a picture as PNG. Raises UsageError if its package is missing."""
    try:
        import vl_convert
    except ImportError:
        raise UsageError(
            "a PNG needs vl-convert-python: pip install 'kshark[report]', or name a file that ends with .svg"
        ) from None
    made: bytes = vl_convert.svg_to_png(svg, scale=_SCALE)
    return made


def picture(subject: Subject, report: Report, records: Bins) -> str:
    """Return the SVG of a group. `report` and `records` hold the requests, findings and events of the subject alone."""
    members = report.members[:_MEMBERS]
    window = _window_of(report, records)
    rows = enumerate((one for kind in report.findings for one in kind.shown), 1)
    bands = [band for band in bands_of(rows, report.captures) if is_within(band, window)]
    bands = [band for band in bands if any(concerning([band], member) for member in report.members)]
    bands = longest(bands)
    parts = _Stack(subject, report, window)
    parts.events(bands)
    parts.findings(rows_of(report.over_time, "cause", window))
    parts.records(records)
    for member in members:
        parts.member(member, concerning(bands, member))
    parts.close(bands, len(report.members) - len(members))
    return parts.svg()


class _Stack:
    """The parts of a picture, one below the other."""

    def __init__(self, subject: Subject, report: Report, window: Window) -> None:
        self._subject, self._window = subject, window
        self._parts: list[str] = []
        self._y = 30
        self._bands = ""
        #: The time axis is drawn below the last part.
        self._has_axis = False
        self._text(str(subject), "title")
        totals = report.totals
        captures = ", ".join(shortened(capture.name, 60) for capture in report.captures)
        requests = sum(member.requests for member in report.members)
        self._facts = (
            f"{captures} · {moment(window.first_ns)} to {moment(window.last_ns)[11:]} UTC · "
            f"{counted(requests, 'share request')} of {counted(len(report.members), 'member')} · "
            f"{counted(totals.violations, 'violation')}, {number(totals.unknown)} not proved, "
            f"{counted(totals.notes, 'note')}"
        )
        self._text(self._facts, "")

    def events(self, bands: Sequence[Band]) -> None:
        """Add a strip for each kind of event, with the numbers of the legend."""
        self._bands = "".join(drawn(bands, self._window, look="event plain"))
        codes = dict.fromkeys(band.finding.code for band in bands)
        if codes:
            self._heading("events")
        for code in codes:
            of_code = {number: band for number, band in enumerate(bands, 1) if band.finding.code == code}
            numbers = (
                f'<text class="event" x="{self._window.at(band.finding.time_ns)}%" dx="3" y="16">{number}</text>'
                for number, band in of_code.items()
            )
            self._strip(code, chain(drawn([*of_code.values()], self._window), numbers))

    def findings(self, rows: Sequence[Row]) -> None:
        """Add a strip for each cause of findings."""
        if not rows:
            return
        self._heading("findings by cause: ▲ violation, ■ unknown, ● note; larger marks stand for more")
        most = max(count for row in rows for count in row.counts.values())
        for row in rows:
            self._strip(row.name, [marked(row, self._window, most, self._bands).content])

    def records(self, records: Bins) -> None:
        """Add bars for the acquired records, and for the acknowledged ones by type and result."""
        bin_ns = max(records.width_ns, -(-(self._window.last_ns - self._window.first_ns) // _BARS), 1)
        bars: dict[str, dict[int, int]] = {}
        for (begin_ns, kind), count in sorted(records.cells.items()):
            at = (begin_ns - self._window.first_ns) // bin_ns
            of_kind = bars.setdefault(kind, {})
            of_kind[at] = of_kind.get(at, 0) + count
        if not bars:
            return
        most = max(count for of_kind in bars.values() for count in of_kind.values())
        self._heading(f"records: the highest bar stands for {number(most)}")
        for kind in KINDS:
            if kind in bars:
                label = f"{kind}: {number(sum(bars[kind].values()))}"
                self._strip(label, chain([self._bands], self._bars(bars[kind], bin_ns, most)))

    def _bars(self, heights: dict[int, int], bin_ns: int, most: int) -> Iterator[str]:
        for at, count in heights.items():
            height = max(1.5, round((STRIP - 4) * count / max(1, most), 1))
            x = self._window.at(self._window.first_ns + at * bin_ns)
            yield f'<rect class="bar" x="{x}%" y="{STRIP - height}" width="0.5%" height="{height}"/>'

    def member(self, member: MemberLine, bands: Sequence[Band]) -> None:
        """Add the sessions and epochs of a member."""
        name = shortened(member.client_id or "no client id", _LABEL)
        details = f"{shortened(member.member_id or 'null', 44)} · broker {member.broker} · {timelines.summary(member)}"
        self._heading(f"session epochs of {name} · member {details}")
        behind = "".join(drawn(bands, self._window, look="event plain"))
        restarts = timelines.unexplained(timelines.restarts_of([member]), bands, self._window)
        content = timelines.content(member, self._window, restarts)
        self._has_axis = True
        self._nested(timelines.HEIGHT, behind + content)

    def close(self, bands: Sequence[Band], others: int) -> None:
        """Add the axis and the legends."""
        if not self._has_axis:
            self._nested(24, "".join(axis(self._window, 2)))
        self._y += _MARGIN
        if others:
            self._text(f"{counted(others, 'more member')} not drawn: --member NAME draws one.", "")
        self._text(
            "Sessions: bars; accepted requests: ticks with their epoch (thick: opens or closes the session; dashed: no "
            "answer); rejected ones: pins with their error.",
            "",
        )
        for index, band in enumerate(bands, 1):
            text = f"{index} {band.finding.code}, {band.when}: {safe(band.finding.argument)}"
            for line in textwrap.wrap(text, _LINE, subsequent_indent="  ", break_on_hyphens=False)[:_LINES]:
                self._text(line, "legend")

    def svg(self) -> str:
        """Return the whole picture."""
        height = self._y + _MARGIN
        style = escape(drawing_style(_STYLE), quote=False)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">'
            f'<title id="title">{escape(str(self._subject))}</title><desc>{escape(self._facts)}</desc>'
            f"<style>{style}</style><defs>{marks()}{timelines.marks()}</defs>"
            f'<rect class="ground" width="100%" height="100%"/>{"".join(self._parts)}</svg>\n'
        )

    def _text(self, text: str, look: str) -> None:
        self._parts.append(f'<text class="{look}" x="{_MARGIN}" y="{self._y}">{escape(text)}</text>')
        self._y += 20

    def _heading(self, text: str) -> None:
        self._parts.append(f'<text x="{_MARGIN}" y="{self._y + 18}">{escape(text)}</text>')
        self._y += 26

    def _strip(self, label: str, content: Iterator[str] | Sequence[str]) -> None:
        middle = self._y + STRIP // 2
        self._parts.append(
            f'<text class="label" x="{_MARGIN}" y="{middle + 4}">{escape(shortened(label, _LABEL))}</text>'
            f'<line class="row" x1="{_LABELS}" x2="{_LABELS + _PLOT}" y1="{self._y + STRIP}" y2="{self._y + STRIP}"/>'
        )
        self._nested(STRIP, "".join(content))

    def _nested(self, height: int, content: str) -> None:
        self._parts.append(
            f'<svg x="{_LABELS}" y="{self._y}" width="{_PLOT}" height="{height}" overflow="visible">{content}</svg>'
        )
        self._y += height


def _window_of(report: Report, records: Bins) -> Window:
    """Return the time span of the requests of all members, their sessions and records."""
    window = timelines.window_of(report.members)
    times = [*window, *(begin_ns for begin_ns, _ in records.cells)] if report.members else [0, 1]
    return Window(min(times), max(times))
