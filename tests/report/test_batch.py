"""The report of several captures: what it says first, in which order, by which cluster, and how large it gets."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache, reduce
from html.parser import HTMLParser
from operator import iadd
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest

from kshark.analysis.rules import RULES
from kshark.model import Event
from kshark.report import facts
from kshark.report.batch import COLUMNS, KINDS, SHOWN, PageNames, heat, html, ranked
from kshark.report.collected import Collected
from kshark.report.collector import Collector
from kshark.report.summing import Origin, summed
from kshark.report.words import verdict_of, verdict_of_batch
from tests.cli.command import Run, runner
from tests.packets import pcap
from tests.report.made import REGISTRY, finding
from tests.shared import CAPTURES
from tests.tables.story import BROKER, Story

#: From the worst capture to the best one: violations, something not proved, notes, nothing, no Kafka.
NAMES = ("adv-epochs.pcap", "adv-acks.pcap", "tcp-var-missed.pcap", "seed-messy.pcap", "tcp-var-base.pcap")


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of some captures, the best one first on the command line."""
    from kshark.cli import main

    folder = tmp_path_factory.mktemp("batch")
    main(["report", *(str(CAPTURES / name) for name in reversed(NAMES)), "--each", "-q", "-o", str(folder)])
    return folder


class Page(HTMLParser):
    """The ids and links of a page, the text of its heading, and the first cell of each row of captures."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.text: dict[str, list[str]] = {}
        self._inside: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in self._inside[-1:]:
            self.text.setdefault(tag, []).append(data)


# -- what it says


def test_the_headline_names_the_worst_capture_and_what_happened(batch: Path) -> None:
    page = Page(batch / "report.html")
    assert page.text["h1"] == ["The worst of 5 captures is adv-epochs.pcap: client A broke the protocol 31 times."]
    assert "2 of 5 captures break the protocol" in " ".join(page.text["li"])


def test_the_worst_capture_stands_first(batch: Path) -> None:
    text = (batch / "report.html").read_text()
    assert re.findall(r'<tr data-words="[^"]*"><td><a href="captures/([^"]+)\.html"', text) == [*NAMES]
    counts = {
        capture["name"]: capture["counts"]["violations"]
        for capture in json.loads((batch / "report.json").read_bytes())["captures"]
    }
    assert [*counts] == [*reversed(NAMES)]  # the data keep the order of the command line
    assert counts["adv-epochs.pcap"] == 31


def test_every_link_leads_somewhere(batch: Path) -> None:
    pages = {path.name: Page(path) for path in (batch / "captures").iterdir()}
    assert len(pages) == len(NAMES)
    to_findings = 0
    for link in Page(batch / "report.html").links:
        path, _, anchor = link.partition("#")
        assert (batch / unquote(path)).exists(), link
        to_findings += bool(path and anchor)
        assert not path or not anchor or anchor in pages[Path(unquote(path)).name].ids, link
    assert to_findings > 20
    for page in pages.values():
        assert "../report.html" in page.links


def test_a_page_of_a_capture_is_its_own_report(kshark: Run, batch: Path, tmp_path: Path) -> None:
    kshark("report", CAPTURES / "adv-epochs.pcap", "-o", tmp_path)
    alone = (tmp_path / "report.html").read_text()
    page = (batch / "captures/adv-epochs.pcap.html").read_text()
    assert page.replace('<a href="../report.html">← all captures</a> · ', "") == alone


def test_the_data_have_the_verdict_of_each_capture(batch: Path) -> None:
    pages = {
        capture["name"]: capture["page"] for capture in json.loads((batch / "report.json").read_bytes())["captures"]
    }
    assert pages["adv-epochs.pcap"] == {
        "path": "captures/adv-epochs.pcap.html",
        "level": "violation",
        "text": "Client A broke the protocol 31 times.",
    }
    assert {page["level"] for page in pages.values()} == {"violation", "note", "good"}


# -- clusters


def metadata(cluster: str, times: int = 1) -> Story:
    """A client asks a broker for its cluster; all stories have the same addresses."""
    story = Story()
    story.ask(18, 3, client_software_name="demo", client_software_version="1.0")
    story.answer(18, 3)
    for _ in range(times):
        story.ask(3, 12, topics=None)
        brokers = [{"node_id": 7, "host": "127.0.0.1", "port": 9092, "rack": None}]
        story.answer(3, 12, brokers=brokers, cluster_id=cluster, topics=[])
    story.close()
    return story


def test_equal_addresses_of_two_clusters_are_two_brokers(kshark: Run, tmp_path: Path) -> None:
    files = []
    for name, story in (("a", metadata("one", 2)), ("b", metadata("two")), ("c", metadata("one"))):
        files.append(tmp_path / f"{name}.pcap")
        files[-1].write_bytes(pcap(story.wire.packets))
    kshark("report", *files, "--each", "-o", tmp_path / "out")
    report = json.loads((tmp_path / "out/report.json").read_bytes())
    assert [(one["cluster"], one["broker"], one["requests"]) for one in report["brokers"]] == [
        ("one", BROKER, 5),
        ("two", BROKER, 2),
    ]
    assert [(one["cluster"], one["client_id"], one["requests"]) for one in report["clients"]] == [
        ("one", "c1", 5),
        ("two", "c1", 2),
    ]
    clusters = [(one["cluster"], one["captures"], one["brokers"], one["requests"]) for one in report["clusters"]]
    assert clusters == [("one", 2, 1, 5), ("two", 1, 1, 2)]
    cells = Page(tmp_path / "out/report.html").text["code"]
    assert (cells.count("one"), cells.count("two")) == (2, 2)  # as clusters, and as clusters of brokers


def test_findings_about_one_name_in_two_clusters_are_two_clients_and_two_groups() -> None:
    made = [counts_of("a.pcap", ["EPOCH_REPLAY"], cluster="one"), counts_of("b.pcap", ["EPOCH_REPLAY"], cluster="two")]
    report = report_of(made)
    for rows in (report.clients_in_findings, report.groups_in_findings):
        assert sorted((str(row.cluster), row.violations) for row in rows) == [("one", 1), ("two", 1)]


# -- many captures, made of counts


@cache
def metadata_of(cluster: str) -> list[Event]:
    return metadata(cluster).events()


def counts_of(name: str, codes: list[str], *, cluster: str | None = None, **given: Any) -> Collected:
    """A capture with a finding of each code, by a client of the only cluster that it names."""
    collector = Collector(name, REGISTRY)
    if cluster is not None:
        collector.page(metadata_of(cluster))
    for packet, code in enumerate(codes):
        collector.finding(finding(code, packet=packet, cause=None, **given))
    return collector.close()


def report_of(made: list[Collected]) -> facts.Report:
    """The report of these captures, with their pages."""
    names = [next(iter(counts.captures)) for counts in made]
    origins, paths = [Origin(name, [name]) for name in names], PageNames()
    pages = []
    for counts, origin in zip(made, origins, strict=True):
        verdict = verdict_of(summed(counts, [origin], [], REGISTRY))
        pages.append(facts.Page(paths.path(origin.name), verdict.level, verdict.sentence))
    report = summed(reduce(iadd, made, Collected()), origins, [], REGISTRY)
    for capture, page in zip(report.captures, pages, strict=True):
        capture.page = page
    return report


@pytest.fixture(scope="module")
def large() -> facts.Report:
    """300 captures with 10,000 findings of 60 codes in 30 clusters."""
    dice = Random(1)
    codes = [rule.code for rule in RULES[:60]]
    made = []
    for number in range(300):
        verdict = ("violation", "unknown", "note")[number % 3]
        found = dice.choices(codes, k=0 if number % 10 == 9 else 37)
        client = f"client-{dice.randrange(500)}"
        made.append(
            counts_of(
                f"capture-{number:03}.pcap", found, cluster=f"cluster-{number % 30}", verdict=verdict, client_id=client
            )
        )
    return report_of(made)


def test_a_page_of_300_captures_is_small_and_its_long_lists_are_folded(large: facts.Report) -> None:
    assert sum(kind.count for kind in large.findings) == 270 * 37
    page = html(large)
    assert len(page.encode()) < 2_000_000
    unfolded = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert unfolded.count('<tr data-words="') == SHOWN
    assert unfolded.count("<tr") < 110
    assert (page.count('<tr data-words="'), page.count('<th scope="row">')) == (300, 270)
    assert page.count('<details class="kind">') > KINDS
    assert "70 more with violations" in page
    assert "90 more in which nothing is proved" in page


def test_thousands_of_captures_are_cut_with_a_sentence_that_says_where_all_are(
    large: facts.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshark.report.batch.CAPTURES", 100)
    page = html(large)
    assert "200 more captures in <code>report.json</code>" in page
    assert page.count('<tr data-words="') == 100


def test_the_heat_map_has_the_codes_with_the_worst_verdicts_first(large: facts.Report) -> None:
    rows = ranked(large)
    drawn = heat(rows)
    assert drawn is not None
    assert (len(drawn.codes), drawn.others) == (COLUMNS, 60 - COLUMNS)
    for row, cells, others in drawn.rows:
        found = {one.code: one.count for one in row.capture.findings}
        assert [cell.findings if cell else 0 for cell in cells] == [found.get(code, 0) for code in drawn.codes]
        assert others + sum(cell.findings for cell in cells if cell) == sum(found.values())


def test_captures_are_sorted_by_violations_then_doubts_then_notes() -> None:
    made = [
        counts_of("notes.pcap", ["EPOCH_REPLAY"] * 9, verdict="note"),
        counts_of("one.pcap", ["EPOCH_REPLAY"]),
        counts_of("clean.pcap", []),
        counts_of("doubts.pcap", ["EPOCH_REPLAY"] * 5, verdict="unknown"),
        counts_of("two.pcap", ["EPOCH_REPLAY"] * 2),
        counts_of("one-more.pcap", ["EPOCH_REPLAY"]),
    ]
    rows = ranked(report_of(made))
    assert [row.capture.name for row in rows] == [
        *("two.pcap", "one-more.pcap", "one.pcap", "doubts.pcap", "notes.pcap", "clean.pcap")
    ]


@pytest.mark.parametrize(
    ("codes", "verdict", "level", "sentence"),
    [
        ([[], ["EPOCH_REPLAY"]], "violation", "violation",
         "The worst of 2 captures is 1.pcap (cluster c1): client billing-3 broke the protocol once."),
        ([["EPOCH_REPLAY"], []], "unknown", "unknown",
         "The worst of 2 captures is 0.pcap (cluster c0): no violation is proved, but 1 finding looks like one: the "
         "capture can neither prove nor exclude it."),
        ([["EPOCH_REPLAY"], []], "note", "note", "No rule was broken in 2 captures with 4 exchanges."),
        ([[], []], "note", "good", "No rule was broken in 2 captures with 4 exchanges."),
    ],
)  # fmt: skip
def test_the_verdict_of_all(codes: list[list[str]], verdict: str, level: str, sentence: str) -> None:
    made = [counts_of(f"{n}.pcap", found, cluster=f"c{n}", verdict=verdict) for n, found in enumerate(codes)]
    report = report_of(made)
    said = verdict_of_batch(report, [row.capture for row in ranked(report)])
    assert (said.level, said.sentence) == (level, sentence)


def test_captures_without_kafka_are_nothing_to_judge() -> None:
    report = report_of([counts_of("a.pcap", []), counts_of("b.pcap", [])])
    said = verdict_of_batch(report, [row.capture for row in ranked(report)])
    assert (said.level, said.sentence) == ("nothing", "Nothing to judge: none of 2 captures has Kafka traffic.")
    assert "<h2>Captures and rules</h2>" not in html(report)


# -- names from captures


def test_names_from_captures_are_escaped() -> None:
    evil = '<b>"x&\x1b[31m</b>.pcap'
    made = [counts_of(evil, ["EPOCH_REPLAY"], cluster="<script>alert(1)</script>", client_id="<i>c</i>")]
    report = report_of([*made, counts_of("b.pcap", [])])
    page = html(report)
    for text in ("<b>", "<script>alert", "<i>c", "\x1b"):
        assert text not in page
    assert "&lt;b&gt;" in page
    assert re.search(r'href="captures/[A-Za-z0-9._-]+\.html"', page)


@pytest.mark.parametrize("name", ["../../etc/passwd", ".hidden", "", "é", "x" * 300, "CON", "a\nb", "%2e%2e"])
def test_a_page_stays_in_its_folder(name: str) -> None:
    path = PageNames().path(name)
    assert re.fullmatch(r"captures/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\.html", path), path


# -- the folder


def test_earlier_pages_are_replaced_and_other_files_are_left(kshark: Run, batch: Path, tmp_path: Path) -> None:
    out = shutil.copytree(batch, tmp_path / "out")
    assert kshark("report", CAPTURES / "adv-acks.pcap", "-o", out).code == 1
    assert not (out / "captures").exists()
    out = shutil.copytree(batch, tmp_path / "other")
    (out / "captures/mine.txt").write_text("mine")
    done = kshark("report", CAPTURES / "adv-acks.pcap", "-o", out)
    assert (done.code, "contains mine.txt" in done.err) == (2, True)
    assert len([*(out / "captures").iterdir()]) == len(NAMES) + 1


def test_pages_of_an_anonymous_report_have_no_name_of_a_capture(kshark: Run, tmp_path: Path) -> None:
    files = [CAPTURES / name for name in ("adv-acks.pcap", "share-java-explicit.pcap")]
    kshark("report", *files, "--each", "--anonymize", "-o", tmp_path, "-q")
    paths = [tmp_path / "report.html", tmp_path / "report.json", *(tmp_path / "captures").iterdir()]
    assert len(paths) == 4
    for path in paths:
        text = path.read_text()
        for name in ("adv-acks", "share-java-explicit", "raw-group", "apache-kafka-java-explicit"):
            assert name not in text
            assert name not in path.name
    for link in Page(tmp_path / "report.html").links:
        assert not link.startswith("captures/") or (tmp_path / link.partition("#")[0]).exists()


# -- files that cannot be read


def test_files_that_cannot_be_read_are_named_and_have_no_page(kshark: Run, tmp_path: Path) -> None:
    folder = tmp_path / "home-of-alice"
    folder.mkdir()
    shutil.copy(CAPTURES / "adv-acks.pcap", folder)
    (folder / "empty.pcap").touch()
    (folder / "short.pcap").write_bytes((CAPTURES / "adv-acks.pcap").read_bytes()[:20])
    assert kshark("report", folder, "--each", "-o", tmp_path / "out").code == 1
    report = json.loads((tmp_path / "out/report.json").read_bytes())
    assert report["unread"] == [
        {"file": "empty.pcap", "reason": "no capture (pcap or pcapng), but an empty file"},
        {"file": "short.pcap", "reason": "the pcap file ends after 20 bytes, inside its header of 24"},
    ]
    assert [capture["name"] for capture in report["captures"]] == ["adv-acks.pcap"]
    text = (tmp_path / "out/report.html").read_text()
    assert "2 files could not be read: empty.pcap, short.pcap." in text
    assert "alice" not in text


def test_without_a_readable_file_the_page_says_so(kshark: Run, tmp_path: Path) -> None:
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for file in files:
        file.write_bytes((CAPTURES / "adv-acks.pcap").read_bytes()[:20])
    assert kshark("report", *files, "--each", "-o", tmp_path / "out").code == 2
    assert Page(tmp_path / "out/report.html").text["h1"] == ["Nothing to judge: no file could be read."]
