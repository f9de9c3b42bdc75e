"""Events as bands over a drawing: from their first packet to their last one, numbered, with a legend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from kshark.model import Finding
from kshark.report.facts import Capture, MemberLine, ShownFinding
from kshark.report.window import Window
from kshark.units import clock, safe

#: Most bands of a drawing: those that lasted longest.
BANDS: Final = 12
#: Least percent of the width of a band, and between the numbers of two.
_WIDTH, _NUMBER = 0.3, 1.6


class Band(NamedTuple):
    """An event. `end_ns`: its last packet, or the end of its capture. `row`: the number of its finding on the page."""

    capture: str
    finding: Finding
    end_ns: int
    row: int

    @property
    def length_ns(self) -> int:
        """The time for which it lasted, as far as its capture shows."""
        return self.end_ns - self.finding.time_ns

    @property
    def when(self) -> str:
        """`23:34:35.981 to 23:35:15.619`."""
        lasts = self.finding.until_ns is None
        return f"{clock(self.finding.time_ns, 3)} to {'the end of the capture' if lasts else clock(self.end_ns, 3)}"


def bands_of(shown: Iterable[tuple[int, ShownFinding]], captures: Iterable[Capture]) -> list[Band]:
    """Return the events among findings with their numbers."""
    ends = {capture.name: capture.last_time_ns for capture in captures}
    bands = []
    for row, one in shown:
        finding = one.finding
        if finding.until_ns is None:
            end_ns = max(finding.time_ns, ends.get(one.capture) or 0)
            bands.append(Band(one.capture, finding, end_ns, row))
        elif isinstance(finding.until_ns, int):
            bands.append(Band(one.capture, finding, finding.until_ns, row))
    return bands


def concerning(bands: Iterable[Band], member: MemberLine) -> list[Band]:
    """Return the events that a member of a share group could notice: each of their properties fits it."""
    return [
        band
        for band in bands
        if band.capture == member.capture
        and band.finding.broker == member.broker
        and band.finding.group_id in (None, member.group_id)
        and band.finding.member_id in (None, member.member_id)
        and (not band.finding.client or band.finding.client_id in (None, member.client_id))
    ]


def is_within(band: Band, window: Window) -> bool:
    """True if an event is in a time span, in part at least."""
    return band.finding.time_ns <= window.last_ns and band.end_ns >= window.first_ns


def longest(bands: Sequence[Band], most: int = BANDS) -> list[Band]:
    """Return the events that lasted longest, in order of time."""
    kept = sorted(bands, key=lambda band: (-band.length_ns, band.capture, band.finding.packet))[:most]
    return sorted(kept, key=lambda band: (band.finding.time_ns, band.finding.packet, band.finding.code))


def drawn(bands: Sequence[Band], window: Window, look: str = "event") -> Iterator[str]:
    """Yield a rectangle of the whole height for each event; `look`: its class in the style."""
    for band in bands:
        begin, width = _extent(band, window)
        yield f'<rect class="{look}" x="{begin}%" y="0" width="{width}%" height="100%"/>'


def numbered(bands: Sequence[Band], window: Window) -> Iterator[str]:
    """Yield the same with the number of each event, as far as the numbers do not overlap."""
    labelled = -_NUMBER
    for number, band in enumerate(bands, 1):
        begin, width = _extent(band, window)
        title = escape(f"{number} {band.finding.code}, {band.when}: {safe(band.finding.argument)}", quote=False)
        yield f'<rect class="event" x="{begin}%" y="0" width="{width}%" height="100%"><title>{title}</title></rect>'
        if begin - labelled >= _NUMBER:
            labelled = begin
            yield f'<text class="event" x="{begin}%" dx="3" y="11">{number}</text>'


def _extent(band: Band, window: Window) -> tuple[float, float]:
    """Return the position and the width of a band in percent."""
    begin = window.at(band.finding.time_ns)
    return begin, round(max(_WIDTH, window.at(band.end_ns) - begin), 2)
