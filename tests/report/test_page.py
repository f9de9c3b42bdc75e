"""The page is made from the report alone: what it says, what it leaves out, what it never does."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from kshark.analysis.rules.causes import ADVICE
from kshark.headlines import Headline
from kshark.output.catalogue import CODES, EVERY_RULE, advice_of
from kshark.output.wireshark import of_connection, of_frames
from kshark.report import facts
from kshark.report.charts import marks
from kshark.report.page import ROWS, html
from kshark.report.style import text_of
from kshark.report.timelines import drawing
from kshark.report.window import Window
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
        if tag not in ("meta", "link", "br", "wbr", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words[self.section] = " ".join([*self.words.get(self.section, "").split(), *data.split()])


class Element(NamedTuple):
    """An element with an id: its text, and the links in it."""

    text: str
    links: list[str]


class Page(HTMLParser):
    """The elements of a page in order: attributes by tag, ids, and what elements with an id contain."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.order: list[str] = []
        self.attributes: defaultdict[str, list[dict[str, str | None]]] = defaultdict(list)
        self._open: list[tuple[str, str | None]] = []
        self._elements: dict[str, Element] = {}
        self.feed(page)

    @property
    def ids(self) -> list[str]:
        return [str(given["id"]) for every in self.attributes.values() for given in every if "id" in given]

    @property
    def missing(self) -> list[str]:
        """Links to an id that no element has."""
        links = (given.get("href") for every in self.attributes.values() for given in every)
        return [link for link in links if link and link.startswith("#") and link[1:] not in self.ids]

    def element(self, name: str) -> Element:
        return self._elements[name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.order.append(tag)
        self.attributes[tag].append(given)
        if (link := given.get("href")) is not None:
            for element in self._around():
                element.links.append(link)
        if tag not in ("meta", "link", "br", "wbr", "input"):
            self._open.append((tag, given.get("id")))
            if (name := given.get("id")) is not None:
                self._elements[name] = Element("", [])

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, name in self._open:
            if name is not None:
                self._elements[name] = self._elements[name]._replace(text=self._elements[name].text + data)

    def _around(self) -> list[Element]:
        return [self._elements[name] for _, name in self._open if name is not None]


def broken(count: int = 1, shown: int = 0, topic: str | None = None, **given: object) -> facts.Report:
    """A report of so many violations of one kind."""
    first = [
        facts.ShownFinding(NAME, finding(**given), topic, [facts.FileFrames(NAME, [10, 12])])
        for _ in range(shown or min(count, 20))
    ]
    one = first[0].finding
    advice = advice_of(one.code, one.cause)
    kind = facts.FindingKind("violation", one.code, one.cause, count, {one.blame: count}, first, advice)
    client = facts.Verdicts("billing-3", "java 4.3.1", "10.0.0.1", count, 0, 0)
    cells = [facts.Cell(1_795_000_000_000_000_000, "client", str(one.client_id), "violation", count)]
    return report(
        totals=totals(violations=count, sessions=2, exchanges={"answered": 9}),
        findings=[kind],
        clients_in_findings=[client],
        over_time=facts.Timed(1 << 20, cells),
    )


def member(name: str = "m", steps: Sequence[facts.MemberRequest] = (), **given: object) -> facts.MemberLine:
    """A member of group `billing` at the broker of the findings."""
    fields: dict[str, object] = {
        "capture": NAME, "broker": "10.0.0.9:9092", "group_id": "billing", "member_id": name, "client_id": name,
        "software": "", "violations": 1, "unknown": 0, "notes": 0, "requests": 4, "refused": {}, "sessions": [],
        "steps": [*steps], "one_in": 1, "one_in_refused": 1,
    }  # fmt: skip
    return facts.MemberLine(**(fields | given))  # type: ignore[arg-type]


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
    words = Text(html(broken())).words["findings"]
    assert "exchange 1 used epoch 3, so 2 was due" in words
    assert "frame.number in {10, 12}" in words
    assert "ip.addr == 10.0.0.1 && tcp.port == 5000 && tcp.port == 9092" in words
    assert "kshark explain EPOCH_SKIP_AHEAD" in words


def test_filters_are_wiresharks() -> None:
    assert of_frames([7]) == "frame.number == 7"
    assert (
        of_connection("[fe80::1]:5000", "[fe80::2]:9092")
        == "ipv6.addr == fe80::1 && tcp.port == 5000 && tcp.port == 9092"
    )


def test_what_is_too_much_is_counted() -> None:
    words = Text(html(broken(5390, shown=40))).words["findings"]
    assert words.count("so 2 was due") == 40
    assert "5,350 more findings of this kind in findings.parquet" in words
    many = broken()
    many.captures = [facts.Capture(f"{n}.pcap", [f"{n}.pcap"]) for n in range(ROWS + 3)]
    assert "3 more captures in report.json" in Text(html(many)).words["scope"]


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</script><script>alert(1)",
        "' + alert(1) + '",
        "\x1b[31m",
        pytest.param("a" * 5000, id="long"),
        "\\",
    ],
)
def test_names_of_a_capture_stay_text(name: str) -> None:
    given = broken(client_id=name, group_id=name, member_id=name, topic_id="id", topic=name, argument=name)
    given.groups_in_findings = [facts.Verdicts(name, None, None, 1, 0, 0)]
    given.captures = [facts.Capture(name, [name], 0, 1), facts.Capture("2", ["2"])]
    given.headlines = [facts.Headlines(name, [Headline("hurt", name, name)])]
    given.members = [member(name)]
    page = html(given)
    assert page.count("<script") == page.count("</script") == 1
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert Text(page).open == []


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = Text(html(broken()))
    assert all(link.startswith(("#", "data:")) for link in text.links)
    assert "url(" not in html(broken())
    assert "http" not in html(broken()).replace("http-equiv", "")


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
    drawn = drawing(member(steps=steps), Window(0, 10), [])
    assert re.findall(r'href="#(\w+)-fetch"', drawn) == ["open", "step", "silent", "silent"]
    assert drawn.count("no answer") == 2


def test_a_client_without_an_id_is_not_named_twice() -> None:
    words = Text(html(broken(client_id=None, software=None))).words["findings"]
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
    words = Text(html(broken(**event))).words["findings"]
    assert when in words
    assert "→ 10.0.0.9" not in words
    assert "no client id" not in words


def test_a_finding_names_the_event_that_explains_it() -> None:
    words = Text(html(broken(event_code="BROKER_DOWN", event_packet=7))).words["findings"]
    assert "Explained by the event BROKER_DOWN (packet 7)." in words


def test_each_kind_of_finding_says_what_to_do() -> None:
    words = Text(html(broken())).words["findings"]
    assert f"→ {CODES['EPOCH_SKIP_AHEAD'].advice}" in words
    for rule in EVERY_RULE:
        for cause in (None, *rule.causes):
            assert advice_of(rule.code, cause).endswith((".", ")"))
    assert advice_of("RETRY_WITHOUT_REMEDY", "no_pause") == ADVICE["no_pause"]


def test_links_lead_from_a_client_to_its_findings_their_session_and_packets() -> None:
    given = broken(2)
    given.members = [member("m", client_id="billing-3")]
    page = Page(html(given))
    client = page.element("c1")
    assert "billing-3" in client.text
    assert {"#f1", "#f2", "#m1"} <= set(client.links)
    row = page.element("f2")
    assert {"#c1", "#m1"} <= set(row.links)
    assert "frame.number in {10, 12}" in row.text
    assert {"#f1", "#f2"} <= set(page.element("m1").links)
    assert page.missing == []


def test_nothing_but_the_style_and_the_script_of_the_page_may_run() -> None:
    """By a Content-Security-Policy that names their hashes; there is no handler or style in an attribute."""
    page = html(broken())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = unescape(policy[1])
    assert "default-src 'none'" in allowed
    assert "unsafe" not in allowed
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in allowed
        assert not re.search(r"\beval\b|innerHTML|document\.write", text)
    assert not re.search(r"<[^>]*\s(on\w+|style)=", page)


def test_a_page_has_a_structure_that_screen_readers_can_follow() -> None:
    given = broken(3, **EVENT)
    given.members = [member("m")]
    given.latency = [facts.Latency(78, "ShareFetch", False, 5, 10**6, 10**7, 10**8, 5 * 10**8)]
    page = Page(html(given))
    assert page.attributes["html"][0]["lang"] == "en"
    assert len(page.attributes["main"]) == len(page.attributes["h1"]) == 1
    levels = [int(tag[1]) for tag in page.order if re.fullmatch("h[1-6]", tag)]
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))
    assert all(header.get("scope") in ("col", "row") for header in page.attributes["th"])
    for svg in page.attributes["svg"]:
        assert svg.get("aria-hidden") == "true" or (svg.get("role") == "img" and svg.get("aria-label"))
    assert len(page.ids) == len(set(page.ids))


def colours() -> Iterator[tuple[str, dict[str, str]]]:
    """The colours of each scheme by name: of light, dark and print."""
    style = text_of("style.css")
    rules = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    light, dark, printed = (dict(re.findall(r"(--[\w-]+): (#\w+)", rule)) for rule in rules)
    yield "light", light
    yield "dark", light | dark
    yield "print", light | printed


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("scheme", "of"), [*colours()])
def test_every_text_can_be_read(scheme: str, of: dict[str, str]) -> None:
    """By a contrast of 4.5 to 1 on every ground."""
    for text in ("ink", "muted", "link", "violation", "unknown", "note", "good", "nothing", "event-ink"):
        for ground in ("ground", "raised"):
            darker, lighter = sorted((luminance(of[f"--{text}"]), luminance(of[f"--{ground}"])))
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (scheme, text, ground)


def test_nothing_on_the_page_moves() -> None:
    assert not re.search("animation|transition|scroll-behavior", text_of("style.css") + text_of("drawing.css"))


EVENT: dict[str, Any] = {
    "code": "BROKER_DOWN", "cause": None, "client": "", "client_id": None, "software": None, "group_id": None,
    "member_id": None, "until_ns": 1_795_000_009_000_000_000, "until_packet": 40,
}  # fmt: skip


def test_an_event_is_a_band_in_the_pictures_with_a_label_that_leads_to_it() -> None:
    given = broken(**EVENT)
    given.captures = [facts.Capture(NAME, [NAME], 1_794_999_999_000_000_000, 1_795_000_020_000_000_000)]
    steps = [facts.MemberRequest(at * 10**9, at, "ShareFetch", 1, 0) for at in (1_794_999_999, 1_795_000_020)]
    given.members = [member("m", steps), member("n", steps, broker="10.0.0.8:9092")]
    page = html(given)
    strips = re.findall(r'<svg class="strip" role="img" aria-label="([^"]*)".*?</svg>', page)
    assert "BROKER_DOWN: 1 event, 11:06:40.000 to 11:06:49.000" in strips
    concerned, other = page.split('<article class="member"')[1:]
    assert re.search(r'<rect class="event"[^>]*><title>1 BROKER_DOWN, 11:06:40.000 to 11:06:49.000', concerned)
    assert '1 <a href="#f1"><code>BROKER_DOWN</code></a> 11:06:40.000 to 11:06:49.000' in concerned
    assert 'class="event"' not in other.partition("</article>")[0]


def test_verdicts_differ_by_the_shape_of_their_marks() -> None:
    shapes = {re.match(r"<(\w+)", mark)[0] for mark in marks().split("/>") if 'class="mark' in mark}  # type: ignore[index]
    assert shapes == {"<path", "<rect", "<circle"}


def test_five_thousand_findings_are_less_than_five_megabytes() -> None:
    long = (
        2 * "ShareFetch #14 (epoch 3) was accepted (packets 379, 384), so 4 was due; ShareFetch #15 (epoch 7) failed "
    )
    names = {"client_id": "billing-consumer-17", "member_id": "mXA2yR02TIKZEDcpAloxFQ"}
    page = html(broken(6_000, shown=5_000, argument=long, **names))
    assert 2_000_000 < len(page.encode()) < 5_000_000
    assert "1,000 more findings of this kind in <code>findings.parquet</code>" in page


def test_an_event_without_an_end_lasts_until_the_end_of_its_own_capture() -> None:
    begin_ns = 1_795_000_000_000_000_000
    given = broken(**(EVENT | {"until_ns": None, "until_packet": None}))
    given.captures = [
        facts.Capture(NAME, [NAME], begin_ns, begin_ns + 10**10),
        facts.Capture("later.pcap", ["l"], begin_ns, begin_ns + 10**12),
    ]
    width = re.search(r'<rect class="event strong" [^>]*width="([\d.]+)%"', html(given))
    assert width is not None
    assert float(width[1]) == pytest.approx(0.98, abs=0.01)
