"""`kshark report`: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshark import limits
from kshark.face import check
from kshark.tables import TABLES
from tests.cli.command import Run, runner
from tests.cli.incident import incident, written
from tests.incidents.trouble import filed, trouble
from tests.shared import CAPTURES


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def test_a_report_is_a_page_its_data_and_all_findings(kshark: Run, tmp_path: Path) -> None:
    done = kshark("report", CAPTURES / "adv-epochs.pcap", "-o", tmp_path / "out")
    checked = kshark("check", "-q", CAPTURES / "adv-epochs.pcap")
    assert (done.code, done.lines[-1]) == (1, checked.lines[-1])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "findings.parquet",
        "report.html",
        "report.json",
    ]
    report = json.loads((tmp_path / "out/report.json").read_bytes())
    assert (report["totals"]["violations"], report["totals"]["sessions"]) == (31, 12)
    assert [(one["broker"], one["releases"]) for one in report["brokers"]] == [
        ("127.0.0.1:20092", ["4.3"]),
        ("127.0.0.1:20093", ["4.3"]),
    ]
    table = pq.read_table(tmp_path / "out/findings.parquet")
    described = {field.name: field.metadata[b"comment"].decode() for field in table.schema}
    assert described == {column.name: column.about for column in TABLES["findings"].columns}
    assert table["code"].to_pylist() == [
        line["code"] for line in kshark("check", CAPTURES / "adv-epochs.pcap", "-T", "json").findings
    ]
    assert set(table["capture"].to_pylist()) == {"adv-epochs.pcap"}
    assert None not in table["flow_id"].to_pylist()


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    ("name", "release"),
    [("adv-races-4.1.2", "4.1"), ("adv-sessions-4.2.1", "4.2"), ("share-java-explicit-4.0.0", "4.0")],
)
def test_the_brokers_release_is_told_by_what_it_offers(kshark: Run, tmp_path: Path, name: str, release: str) -> None:
    kshark("report", CAPTURES / f"{name}.pcap", "-o", tmp_path)
    brokers = json.loads((tmp_path / "report.json").read_bytes())["brokers"]
    assert brokers[0]["releases"] == [release]


def test_a_clean_capture_answers_0(kshark: Run, tmp_path: Path) -> None:
    assert kshark("report", written(tmp_path, incident()[:20]), "-o", tmp_path / "out").code == 0


def test_select_and_ignore_hold_for_all_three(kshark: Run, tmp_path: Path) -> None:
    done = kshark("report", CAPTURES / "adv-epochs.pcap", "-o", tmp_path, "--select", "TWO_COUNTERS", "-T", "json")
    assert done.json[-1]["summary"]["by_code"] == {"TWO_COUNTERS": 1}
    assert [kind["code"] for kind in json.loads((tmp_path / "report.json").read_bytes())["findings"]] == [
        "TWO_COUNTERS"
    ]
    assert pq.read_table(tmp_path / "findings.parquet").num_rows == 1


def test_files_of_the_same_time_were_recorded_by_clocks_of_their_own(kshark: Run, tmp_path: Path) -> None:
    packets = incident()
    one, two = written(tmp_path, packets[::2], "1.pcap"), written(tmp_path, packets[1::2], "2.pcap")
    kshark("report", one, two, "-o", tmp_path / "out")
    assert "Captures of the same time, each with its own clock" in (tmp_path / "out" / "report.html").read_text()


def test_several_files_are_one_capture_and_packets_are_named_by_file(kshark: Run, tmp_path: Path) -> None:
    packets = incident()
    one, two = written(tmp_path, packets[:12], "1.pcap"), written(tmp_path, packets[12:], "2.pcap")
    kshark("report", one, two, "-o", tmp_path / "out")
    report = json.loads((tmp_path / "out/report.json").read_bytes())
    assert [(each["name"], len(each["files"])) for each in report["captures"]] == [("1.pcap+1", 2)]
    (shown,) = next(kind["shown"] for kind in report["findings"] if kind["verdict"] == "violation")
    assert {place["file"] for place in shown["places"]} <= {one.name, two.name}
    frames = sum(len(place["frames"]) for place in shown["places"])
    assert frames >= 2
    assert max(max(place["frames"]) for place in shown["places"]) <= len(packets[12:])


def test_each_file_may_be_a_capture_of_its_own(kshark: Run, tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    names = ("adv-acks.pcap", "adv-members.pcap")
    for name in names:
        shutil.copy(CAPTURES / name, captures)
    kshark("report", captures, "--each", "-o", tmp_path / "out")
    report = json.loads((tmp_path / "out/report.json").read_bytes())
    assert [each["name"] for each in report["captures"]] == [*names]
    alone = [finding for name in names for finding in check(CAPTURES / name) if finding.verdict == "violation"]
    assert report["totals"]["violations"] == len(alone) > 3


def test_an_earlier_report_is_replaced_and_anything_else_is_left(kshark: Run, trace: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert kshark("report", trace, "-o", tmp_path / "out").code == 1
    (tmp_path / "out/mine.txt").write_text("mine")
    done = kshark("report", trace, "-o", tmp_path / "out")
    assert (done.code, "contains mine.txt" in done.err) == (2, True)
    assert (tmp_path / "out/report.html").exists()


def test_bad_usage_is_one_sentence(kshark: Run, trace: Path, tmp_path: Path) -> None:
    for words in ([], ["-o", trace], ["-o", "s3a://bucket/report"], ["-o", tmp_path / "out", "--select", "EPOCH_SKIP"]):
        done = kshark("report", trace, *words)
        assert (done.code, done.err.count("\n")) == (2, 1)
    assert not (tmp_path / "out").exists()


def test_the_headlines_are_those_of_check_for_each_capture(kshark: Run, tmp_path: Path) -> None:
    captures = [CAPTURES / f"{name}.pcap" for name in ("adv-races-4.1.2", "adv-sessions-4.2.1")]
    printed = kshark("report", *captures, "--each", "-T", "json", "-o", tmp_path).json
    report = json.loads((tmp_path / "report.json").read_bytes())
    for capture, of_capture in zip(captures, report["headlines"], strict=True):
        checked = kshark("check", capture, "-T", "json").json
        headlines = [line["headline"] for line in checked if "headline" in line]
        assert headlines
        assert of_capture == {"capture": capture.name, "headlines": headlines}
        assert [line for line in printed if line in checked and "headline" in line] == checked[-1 - len(headlines) : -1]


def test_events_are_findings_with_an_end(kshark: Run, tmp_path: Path) -> None:
    capture = filed(trouble(), tmp_path / "trouble.pcap")
    kshark("report", capture, "-o", tmp_path / "out")
    lines = kshark("check", capture, "-T", "json").findings
    expected = [
        tuple(line.get(name) for name in ("code", "until_packet", "until_ns", "event_code", "event_packet"))
        for line in lines
    ]
    table = pq.read_table(tmp_path / "out" / "findings.parquet")
    names = ("code", "until_packet", "until_ts_ns", "event_code", "event_packet")
    assert [*zip(*(table[name].to_pylist() for name in names), strict=True)] == expected
    assert any(until is not None for _, until, *_ in expected)
    assert any(event is not None for *_, event, _ in expected)


def test_no_folder_of_this_machine_is_in_a_report(kshark: Run, tmp_path: Path) -> None:
    """Files of one name in two folders are numbered."""
    secret = tmp_path / "home-of-alice"
    packets = incident()
    for number, name in enumerate(("x", "y", "z/a.pcap.gz")):
        folder = secret / name
        folder.mkdir(parents=True)
        written(folder, packets[:12] if number else packets, "a.pcap")
    for words in (["--each"], []):
        kshark("report", secret / "x/a.pcap", secret / "y/a.pcap", *words, "-o", tmp_path / "out")
        report = json.loads((tmp_path / "out/report.json").read_bytes())
        files = [file for capture in report["captures"] for file in capture["files"]]
        assert files == (["a.pcap", "a.pcap"] if words else ["a.pcap", "a.pcap#2"])
        assert [capture["name"] for capture in report["captures"]] == (
            ["a.pcap", "a.pcap#2"] if words else ["a.pcap+1"]
        )
        texts = [(tmp_path / "out" / name).read_text() for name in ("report.html", "report.json")]
        table = pq.read_table(tmp_path / "out/findings.parquet")
        texts += [str(value) for column in table.columns for value in column.to_pylist()]
        texts += [str(table.schema)]
        for text in texts:
            assert "alice" not in text
            assert "x/a" not in text
            assert "y/a" not in text


def test_above_the_limit_findings_are_in_the_table_only(
    kshark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REPORT_FINDINGS", 25)
    kshark("report", CAPTURES / "adv-epochs.pcap", "-o", tmp_path)
    page = (tmp_path / "report.html").read_text()
    rows = page.count('<tr id="f')
    assert 20 <= rows <= 25
    assert f"{49 - rows} more findings, of all kinds together, are in <code>findings.parquet</code>" in page
    assert pq.read_table(tmp_path / "findings.parquet").num_rows == 49


def test_every_finding_and_headline_says_what_to_do(kshark: Run, tmp_path: Path) -> None:
    for name in ("adv-epochs", "share-restart", "java-limit", "adv-races-4.1.2"):
        kshark("report", CAPTURES / f"{name}.pcap", "-o", tmp_path)
        report = json.loads((tmp_path / "report.json").read_bytes())
        assert all(kind["advice"] for kind in report["findings"])
        assert all(one["advice"] for capture in report["headlines"] for one in capture["headlines"])
