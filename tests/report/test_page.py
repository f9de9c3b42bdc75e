"""The page is made from the report alone: what it says, what it leaves out, what it never does."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kshark.headlines import Headline
from kshark.output.wireshark import of_connection, of_frames
from kshark.report import facts
from kshark.report.charts import findings_over_time
from kshark.report.page import FINDINGS, NARROW, OPEN, ROWS, WIDE, html
from kshark.report.timelines import Window, drawing
from tests.report.made import NAME, finding, report, totals


class Text(HTMLParser):
    """The words of a page by section, and every element's attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.section = "head"
        self.words: dict[str, str] = {}
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("section", "header"):
            self.section = given.get("id") or tag
        self.links += [value for name in ("href", "src", "xlink:href") if (value := given.get(name))]
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words[self.section] = " ".join([*self.words.get(self.section, "").split(), *data.split()])


def broken(count: int = 1, **given: object) -> facts.Report:
    """A report of so many violations of one kind."""
    shown = [
        facts.ShownFinding(NAME, finding(**given), None, [facts.FileFrames(NAME, [10, 12])])
        for _ in range(min(count, 20))
    ]
    one = shown[0].finding
    kind = facts.FindingKind("violation", one.code, one.cause, count, {one.blame: count}, shown)
    client = facts.Verdicts("billing-3", "java 4.3.1", "10.0.0.1", count, 0, 0)
    cells = [facts.Cell(1_795_000_000_000_000_000, "client", str(shown[0].finding.client_id), "violation", count)]
    return report(
        totals=totals(violations=count, sessions=2, exchanges={"answered": 9}),
        findings=[kind],
        clients_in_findings=[client],
        over_time=facts.Timed(1 << 20, cells),
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (broken(1), "Client billing-3 broke the protocol once."),
        (broken(28), "Client billing-3 broke the protocol 28 times."),
        (
            broken(2, code="EPOCH_REPLAY", cause="replay", blame="unknown"),
            "The protocol was broken twice, by client or network.",
        ),
        (
            report(totals=totals(unknown=6, unknown_because={"gap": 6}, sessions=2)),
            "No violation is proved, but 6 findings look like one: the capture can neither prove nor exclude it.",
        ),
        (
            report(totals=totals(notes=3, sessions=8, exchanges={"answered": 389})),
            "No rule was broken in 8 share sessions and 389 exchanges; 3 notes.",
        ),
        (
            report(totals=totals(sessions=1, exchanges={"answered": 4})),
            "No rule was broken in 1 share session and 4 exchanges.",
        ),
        (
            report(totals=totals(exchanges={"answered": 4})),
            "No rule was broken in 4 exchanges; the capture has no share session.",
        ),
        (report(), "Nothing to judge: the capture has no Kafka traffic."),
    ],
)
def test_the_verdict_is_one_sentence_and_never_a_bare_zero(given: facts.Report, sentence: str) -> None:
    words = Text(html(given)).words["header"]
    assert sentence in words
    assert not re.search(r"(?<![\d,.:-])0(?![\d,.:-])", words.replace("1970-01-01 00:00:00.000 UTC", ""))


def test_what_could_not_be_read_stands_beside_any_verdict() -> None:
    services = [facts.Service("kafka", 9, 100, 1, 4), facts.Service("tls", 28, 297_000, 0, 0)]
    for given in (report(totals=totals(exchanges={"answered": 1})), broken()):
        given.connections, given.gaps = services, [facts.Gaps("missing", 2, 96)]
        page = html(given)
        assert (
            "Not judged, because not readable: 2 gaps (96 B) and 28 TLS connections (297 kB)."
            in Text(page).words["header"]
        )
        assert '<header class="good">' not in page


def test_a_finding_names_its_packets_and_how_to_find_them() -> None:
    words = Text(html(broken())).words["evidence"]
    assert "exchange 1 used epoch 3, so 2 was due" in words
    assert "trace.pcap frame.number in {10, 12}" in words
    assert "ip.addr == 10.0.0.1 && tcp.port == 5000 && tcp.port == 9092" in words
    assert "kshark explain EPOCH_SKIP_AHEAD" in words


def test_filters_are_wiresharks() -> None:
    assert of_frames([7]) == "frame.number == 7"
    assert (
        of_connection("[fe80::1]:5000", "[fe80::2]:9092")
        == "ipv6.addr == fe80::1 && tcp.port == 5000 && tcp.port == 9092"
    )


def test_what_is_too_much_is_counted() -> None:
    words = Text(html(broken(5390))).words["evidence"]
    assert words.count("so 2 was due") == FINDINGS
    assert f"{FINDINGS - OPEN} more" in words
    assert f"{5390 - FINDINGS:,} more findings of this kind in findings.parquet" in words
    many = broken()
    many.clients_in_findings = [facts.Verdicts(f"c{n}", None, None, 1, 0, 0) for n in range(ROWS + 3)]
    assert "3 more clients in report.json" in Text(html(many)).words["findings"]


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "' + alert(1) + '", "\x1b[31m", "a" * 5000, "\\"])
def test_names_of_a_capture_stay_text(name: str) -> None:
    page = html(broken(client_id=name, group_id=name, member_id=name, argument=name))
    assert "<script" not in page
    assert "\x1b" not in page
    assert Text(page).open == []


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = Text(html(broken()))
    assert all(link.startswith(("#", "data:")) for link in text.links)
    assert "url(" not in html(broken())
    assert "http" not in html(broken())


def test_latencies_of_waiting_fetches_stand_apart() -> None:
    rows = [facts.Latency(78, "ShareFetch", waited, 5, 10**6, 10**7, 10**8, 5 * 10**8) for waited in (False, True)]
    words = Text(html(report(latency=rows))).words["latency"]
    quick, waiting = words.split("Fetches without records, which waited")
    assert "ShareFetch 5 1.00 ms 10.0 ms 100 ms 500 ms" in quick
    assert "ShareFetch 5 1.00 ms" in waiting


def test_data_quality_says_what_is_missing() -> None:
    services = [facts.Service("kafka", 9, 100, 1, 4), facts.Service("tls", 2, 1000, 0, 0)]
    words = Text(html(report(connections=services, gaps=[facts.Gaps("missing", 2, 96)]))).words["scope"]
    for told in (
        "2 gaps (missing 2), 96 B lost",
        "4 of 9 Kafka connections began before the capture",
        "2 TLS connections not read (1.00 kB)",
    ):
        assert told in words


def test_a_request_without_an_answer_is_not_drawn_as_accepted() -> None:
    steps = [
        facts.MemberRequest(at, at, "ShareFetch", epoch, error)
        for at, epoch, error in ((1, 0, 0), (2, 1, 0), (3, 0, None), (4, -1, None))
    ]
    line = facts.MemberLine(NAME, "b:9092", "g", "m", "c", "", 0, 0, 0, 4, {}, [], steps, 1, 1)
    drawn = drawing(line, Window(0, 10), [])
    assert re.findall(r'class="tick (\w+)"', drawn) == ["open", "step", "silent", "silent"]
    assert drawn.count("no answer") == 2


def test_times_below_a_narrow_chart_do_not_overlap() -> None:
    """Of seventeen minutes in 350 pixels: fonts of browsers are wider than the one that is measured."""
    minute_ns = 60_000_000_000
    timed = facts.Timed(minute_ns, [facts.Cell(0, "cause", "gap", "note", 1)])
    for width, most in ((NARROW, 2), (WIDE, 6)):
        chart = findings_over_time(timed, [facts.Capture(NAME, [NAME], 0, 17 * minute_ns)], width)
        shown = re.findall(r'<text (?![^>]*opacity="0")[^>]*>\d\d:\d\d:00</text>', chart or "")
        assert 2 <= len(shown) <= most


def test_a_client_without_an_id_is_not_named_twice() -> None:
    words = Text(html(broken(client_id=None, software=None))).words["evidence"]
    assert "no client id 10.0.0.1:5000 → 10.0.0.9:9092" in words


def test_the_headlines_stand_first_in_their_order() -> None:
    event = Headline("event", "Broker b was down for 9 s.", "Look into its log.", "BROKER_DOWN", more={"ACK_LOST": 2})
    hurt = Headline("hurt", "Client <c> got no records.", weight=55)
    of_captures = [facts.Headlines(NAME, [event, hurt]), facts.Headlines("other.pcap", [hurt])]
    captures = [facts.Capture(NAME, [NAME]), facts.Capture("other.pcap", ["other.pcap"])]
    words = Text(html(report(headlines=of_captures, captures=captures))).words
    assert words["headlines"] == (
        f"What happened {NAME} Broker b was down for 9 s. BROKER_DOWN Explains ACK_LOST (2 times). "
        "→ Look into its log. Client <c> got no records. other.pcap Client <c> got no records."
    )
    assert list(words).index("headlines") < list(words).index("scope")
    assert "headlines" not in Text(html(report())).words


@pytest.mark.parametrize(("until_ns", "when"), [(1_795_000_009_000_000_000, "to 11:06:49.000"), (None, "to the end")])
def test_an_event_has_its_end_and_needs_no_client(until_ns: int | None, when: str) -> None:
    event = {"until_ns": until_ns, "until_packet": until_ns and 14, "client": "", "client_id": None, "software": None}
    words = Text(html(broken(**event))).words["evidence"]
    assert when in words
    assert "→" not in words
    assert "no client id" not in words


def test_a_finding_names_the_event_that_explains_it() -> None:
    words = Text(html(broken(event_code="BROKER_DOWN", event_packet=7))).words["evidence"]
    assert "Explained by the event BROKER_DOWN (packet 7)." in words
