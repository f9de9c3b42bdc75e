"""A report as one page of HTML: a pure function of its data. The page loads nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from kshark import units
from kshark.analysis import REASONS
from kshark.error_names import ERROR_NAMES
from kshark.errors import UsageError
from kshark.output import wireshark
from kshark.output.catalogue import parties
from kshark.report import facts, timelines, words
from kshark.report.bands import Band, bands_of, concerning, is_within, longest
from kshark.report.charts import findings_over_time, marks, strip_svg
from kshark.report.index import anchors_of, codes_of, index_of
from kshark.report.quality import quality_of
from kshark.report.style import page_style, text_of

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
except ImportError:
    raise UsageError("a report needs jinja2: pip install 'kshark[report]'") from None

#: Most rows of a table, and sessions listed for a member. The other files have all.
ROWS: Final = 12
SESSIONS: Final = 40
#: Nothing is loaded or run but the style and the script of the page, which are named by their hashes.
_POLICY: Final = (
    "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'"
)


class Drawn(NamedTuple):
    """A member, its drawing, and the events in it."""

    member: facts.MemberLine
    svg: str
    bands: list[Band]


@cache
def templates() -> Environment:
    """Return the templates of this package, with the filters that they use."""
    environment = Environment(
        loader=PackageLoader("kshark.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["parties"] = parties
    environment.filters |= {
        "number": units.number,
        "counted": units.counted,
        "size": units.size,
        "duration": units.duration,
        "moment": units.moment,
        "clock": units.clock,
        "safe_text": units.safe,
        "shortened": units.shortened,
        "times": words.times,
        "error": _error,
        "cluster": _cluster,
    }
    return environment


def html(report: facts.Report, up: str | None = None) -> str:
    """Render the page. `up`: the page of all captures, if this is one of several."""
    style, script = page_style(), text_of("page.js")
    index = index_of(report, report.members)
    # Of a request log there are messages, in order of time, and lines.
    is_log = any(weird.code == "LOGGED_TIMES" for weird in report.weirds)
    noun = "message" if is_log else "packet"
    bands = bands_of(((row.number, row.shown) for rows in index.rows for row in rows), report.captures)
    page: str = (
        templates()
        .get_template("page.html.j2")
        .render(
            report=report,
            verdict=words.verdict_of(report),
            quality=quality_of(report),
            index=index,
            codes=codes_of(report.findings),
            anchors=anchors_of(report.findings),
            left_out=sum(kind.count - len(kind.shown) for kind in report.findings),
            bands=bands,
            chart=findings_over_time(report.over_time, report.captures, bands),
            strip_svg=strip_svg,
            marks=marks() + timelines.marks(),
            drawn=_drawn(report.members, bands, noun),
            is_log=is_log,
            noun=noun,
            latency=_latency(report.latency),
            software=_software(report.apis),
            meaning_of=words.meaning_of,
            weird_text=words.weird_text,
            reasons=REASONS,
            frames_filter=wireshark.of_frames,
            connection_filter=wireshark.of_connection,
            style=style,
            script=script,
            policy=policy(style, script),
            up=up,
            several_clusters=len(report.clusters) > 1,
            several=len(report.captures) > 1,
            many_files=sum(len(capture.files) for capture in report.captures) > 1,
            limits={"rows": ROWS, "sessions": SESSIONS},
        )
    )
    return page


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy of a page with this style and script."""
    return _POLICY.format(_hash(style), _hash(script))


def _hash(text: str) -> str:
    """Return the source of a Content-Security-Policy that allows an element with this text."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _cluster(cluster: str | None) -> str:
    """Return the name of a cluster."""
    return "cluster unknown" if cluster is None else f"cluster {units.shortened(cluster, 40)}"


def _error(code: Any) -> str:
    """Return the number and the name of an error."""
    return f"{code} {ERROR_NAMES.get(int(code), '')}".rstrip()


def _drawn(members: list[facts.MemberLine], bands: list[Band], noun: str) -> list[Drawn]:
    """Draw the members; members of one capture share the time axis, and members of a broker its restarts."""
    drawings = {}
    for capture, of_capture in groupby(sorted(members, key=attrgetter("capture")), key=attrgetter("capture")):
        lines = list(of_capture)
        window = timelines.window_of(lines)
        for member in lines:
            restarts = timelines.restarts_of(line for line in lines if line.broker == member.broker)
            shown = longest([band for band in concerning(bands, member) if is_within(band, window)])
            drawings[capture, member.broker, member.group_id, member.member_id] = Drawn(
                member, timelines.drawing(member, window, restarts, shown, noun), shown
            )
    return [drawings[member.capture, member.broker, member.group_id, member.member_id] for member in members]


class Measured(NamedTuple):
    """A row of latencies, and the positions of its bar in percent on a logarithmic scale."""

    row: facts.Latency
    left: float
    middle: float
    right: float


def _latency(rows: list[facts.Latency]) -> list[tuple[bool, list[Measured]]]:
    """Separate rows of fetches that waited from all others."""
    return [(waited, [_measured(row) for row in group]) for waited, group in groupby(rows, key=attrgetter("waited"))]


def _measured(row: facts.Latency) -> Measured:
    """Place a latency on a scale from 100 microseconds to 100 seconds."""
    positions = []
    for ns in (row.p50, row.p95, row.p99):
        digits = len(str(max(1, ns)))
        exact = digits - 1 + (int(str(max(1, ns))[:3].ljust(3, "0")) / 100 - 1) / 9
        positions.append(round(min(100.0, max(0.0, 100 * (exact - 5) / 6)), 1))
    return Measured(row, *positions)


def _software(apis: list[facts.ApiUse]) -> list[tuple[str, int, list[tuple[str, str]]]]:
    """Return each software with its number of requests, and the versions that it used of each API."""
    requests: dict[str, int] = {}
    used: dict[str, dict[str, list[int]]] = {}
    for api in apis:
        for version, counts in api.versions.items():
            for software, count in counts.items():
                requests[software] = requests.get(software, 0) + count
                used.setdefault(software, {}).setdefault(api.api, []).append(int(version))
    ranked = sorted(requests, key=lambda name: (-requests[name], name))
    return [
        (
            name,
            requests[name],
            [(api, ", ".join(map(str, sorted(versions)))) for api, versions in sorted(used[name].items())],
        )
        for name in ranked
    ]
