"""The page of several captures: the worst first, a heat map of captures and rules, clusters, and links to the pages of
single captures. A pure function of a report; it loads nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, groupby
from typing import Final, NamedTuple

from kshark.report import facts, page, words
from kshark.report.folder import PAGES
from kshark.report.quality import quality_of
from kshark.report.style import page_style, text_of

#: Captures that are shown unfolded, and on the page at all; the other files have all.
SHOWN: Final = 20
CAPTURES: Final = 1_000
#: Rules of the heat map, and its captures; captures that are linked from a kind of findings.
COLUMNS: Final = 26
ROWS: Final = 400
LINKS: Final = 40
#: Kinds of findings that are shown unfolded.
KINDS: Final = 12
#: Rows of brokers, clients and groups: unfolded, and in all.
SERVERS: Final = 12
ALL_SERVERS: Final = 200

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
#: Longest name of a page, without its ending.
_NAME: Final = 100
#: The levels of a verdict, the worst first, with what a fold of such captures is called.
_LEVELS: Final = {
    "violation": "with violations",
    "unknown": "in which nothing is proved, but something looks like a violation",
    "note": "with notes only",
    "good": "without a finding",
    "nothing": "in which nothing could be judged",
}


class Row(NamedTuple):
    """A capture of the page. `about`: what stands first about it; `codes`: those of its findings, for the search."""

    capture: facts.Capture
    page: facts.Page
    about: str
    codes: str


class Fold(NamedTuple):
    """Captures of one level below those that are shown first."""

    title: str
    rows: list[Row]


class Cell(NamedTuple):
    """Findings of one capture with one code. `look`: the first letter of the worst verdict, and 1 to 4 by number."""

    code: str
    findings: int
    look: str


class Heat(NamedTuple):
    """The heat map: codes, and for each capture its cells and the number of findings with further codes."""

    codes: list[str]
    others: int
    rows: list[tuple[Row, list[Cell | None], int]]


class Kind(NamedTuple):
    """Findings of all captures with one verdict and code; `captures`: those that have some, with their number."""

    verdict: str
    code: str
    findings: int
    causes: list[tuple[str, int]]
    meaning: str
    advice: str
    captures: list[tuple[Row, int]]


class PageNames:
    """Names the pages of captures: each has its own, also on disks that do not tell upper from lower case.

    >>> names = PageNames()
    >>> [names.path(name) for name in ("a.pcap", "a b/ü.pcap", "A.pcap")]
    ['captures/a.pcap.html', 'captures/a_b_.pcap.html', 'captures/A.pcap-2.html']
    """

    def __init__(self) -> None:
        self._used: set[str] = set()

    def path(self, capture: str) -> str:
        """Return the path of the next capture's page in the folder of the report."""
        plain = _NOT_IN_NAMES.sub("_", capture)[-_NAME:].lstrip(".") or "capture"
        names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
        name = next(name for name in names if name.lower() not in self._used)
        self._used.add(name.lower())
        return f"{PAGES}/{name}.html"


def html(report: facts.Report) -> str:
    """Render the page. Every capture has its own one (`facts.Capture.page`)."""
    rows = ranked(report)
    style, script = page_style() + text_of("batch.css"), text_of("batch.js")
    of_capture = {row.capture.name: row for row in rows}
    rendered: str = (
        page.templates()
        .get_template("batch.html.j2")
        .render(
            report=report,
            verdict=words.verdict_of_batch(report, [row.capture for row in rows]),
            rows=rows[:SHOWN],
            folds=folds(rows[SHOWN:CAPTURES]),
            left_out=max(0, len(rows) - CAPTURES),
            heat=heat(rows),
            kinds=kinds(report, rows),
            quality=quality_of(report),
            worst_of=worst_of(rows),
            of_capture=of_capture,
            violated=sum(row.capture.counts.violations > 0 for row in rows),
            style=style,
            script=script,
            policy=page.policy(style, script),
            limits={"links": LINKS, "servers": SERVERS, "all_servers": ALL_SERVERS, "heat": SHOWN, "kinds": KINDS},
        )
    )
    return rendered


def ranked(report: facts.Report) -> list[Row]:
    """Return the captures: most violations first, then most findings that are not proved, then most notes."""
    headlines = {one.capture: one.headlines for one in report.headlines}
    rows = []
    for capture in report.captures:
        assert capture.page is not None  # of several captures each has a page
        own = headlines.get(capture.name, ())
        first = next((one for one in own if one.kind != "capture"), next(iter(own), None))
        about = first.text if first is not None else capture.page.text
        codes = " ".join(dict.fromkeys(one.code for one in capture.findings))
        rows.append(Row(capture, capture.page, about, codes))

    def trouble(row: Row) -> tuple[int, int, int, int, str]:
        counts = row.capture.counts
        level = [*_LEVELS].index(row.page.level)
        return -counts.violations, -counts.unknown, level, -counts.notes, row.capture.name

    return sorted(rows, key=trouble)


def folds(rows: Iterable[Row]) -> list[Fold]:
    """Return further captures by level."""
    return [Fold(_LEVELS[level], [*of_level]) for level, of_level in groupby(rows, key=lambda row: row.page.level)]


def heat(rows: Sequence[Row]) -> Heat | None:
    """Return the heat map of captures with findings; None without one."""
    captures: Counter[str] = Counter()
    worst: dict[str, str] = {}
    for row in rows:
        captures.update({one.code for one in row.capture.findings})
        for one in row.capture.findings:
            worst[one.code] = min(worst.get(one.code, one.verdict), one.verdict, key=_severity)
    codes = sorted(captures, key=lambda code: (_severity(worst[code]), -captures[code], code))
    shown = codes[:COLUMNS]
    found = [_cells(row, shown) for row in rows if row.capture.findings][:ROWS]
    return Heat(shown, len(codes) - len(shown), found) if found else None


def _cells(row: Row, codes: Sequence[str]) -> tuple[Row, list[Cell | None], int]:
    counts: Counter[str] = Counter()
    worst: dict[str, str] = {}
    for one in row.capture.findings:
        counts[one.code] += one.count
        worst[one.code] = min(worst.get(one.code, one.verdict), one.verdict, key=_severity)
    cells = [
        Cell(code, counts[code], f"{worst[code][0]}{min(4, len(str(counts[code])) + (counts[code] > 1))}")
        if code in counts
        else None
        for code in codes
    ]
    return row, cells, counts.total() - sum(cell.findings for cell in cells if cell is not None)


def _severity(verdict: str) -> int:
    return [*_LEVELS].index(verdict)


def kinds(report: facts.Report, rows: Sequence[Row]) -> list[Kind]:
    """Return the findings of all captures by verdict and code, in the order of the report."""
    having: dict[tuple[str, str], list[tuple[Row, int]]] = {}
    for row in rows:
        for one in row.capture.findings:
            having.setdefault((one.verdict, one.code), []).append((row, one.count))
    by_code: dict[tuple[str, str], list[facts.FindingKind]] = {}
    for kind in report.findings:
        by_code.setdefault((kind.verdict, kind.code), []).append(kind)
    found = [
        Kind(
            verdict,
            code,
            sum(kind.count for kind in of_code),
            [(kind.cause, kind.count) for kind in of_code if kind.cause and kind.cause != code.lower()],
            words.meaning_of(of_code[0]),
            of_code[0].advice,
            sorted(having.get((verdict, code), []), key=lambda item: -item[1]),
        )
        for (verdict, code), of_code in by_code.items()
    ]
    return sorted(found, key=lambda kind: (_severity(kind.verdict), -kind.findings, kind.code))


def worst_of(rows: Iterable[Row]) -> dict[str | None, Row]:
    """Return the worst capture of each cluster; None stands for captures that name no cluster."""
    worst: dict[str | None, Row] = {}
    for row in rows:
        for cluster in (*row.capture.clusters,) or (None,):
            worst.setdefault(cluster, row)
    return worst
