"""`kshark report --picture`: one picture of a share group or a member, for a ticket without the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kshark.face import check
from kshark.model import Exchange
from kshark.report.group_records import GroupRecords
from kshark.report.mergeable import Bins
from kshark.report.picture import Subject, picture
from tests.cli.command import Run, runner
from tests.cli.incident import incident, written
from tests.conversation import TOPIC, Conversation, events
from tests.report.made import report
from tests.report.test_page import EVENT, broken, member
from tests.shared import CAPTURES

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def words(svg: str) -> list[str]:
    """The texts of a picture, in order; it is XML."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


def test_a_picture_of_a_group_shows_requests_records_and_findings(kshark: Run, tmp_path: Path) -> None:
    done = kshark("report", written(tmp_path), "--group", "billing", "--picture", tmp_path / "billing.svg")
    assert (done.code, done.out) == (1, "")
    shown = words((tmp_path / "billing.svg").read_text())
    assert shown[0] == "Share group billing"
    assert re.fullmatch(
        r"incident.pcap · .* UTC · 3 share requests of 1 member · 1 violation, 0 not proved, .*", shown[1]
    )
    for text in ("acquired: 11", "acks: accept: 9", "acks: release: 1", "skip_ahead"):
        assert text in shown
    assert any(text.startswith("session epochs of ") and "3 requests, 1 rejected, 1 session" in text for text in shown)
    assert not (tmp_path / "billing.png").exists()


def test_the_file_name_decides_the_format(kshark: Run, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed: pip install 'kshark[report]'")
    kshark("report", written(tmp_path), "--group", "billing", "--picture", tmp_path / "billing.PNG")
    assert (tmp_path / "billing.PNG").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_png_names_the_package_that_it_needs(kshark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = kshark("report", written(tmp_path), "--group", "billing", "--picture", tmp_path / "billing.png")
    assert done.code == 2
    assert "a PNG needs vl-convert-python" in done.err
    assert kshark("report", written(tmp_path), "--group", "billing", "--picture", tmp_path / "b.svg").code == 1


def test_one_member_is_chosen_by_its_id_or_its_client_id(kshark: Run, tmp_path: Path) -> None:
    member_id = next(finding.member_id for finding in check(CAPTURES / "adv-epochs.pcap") if finding.member_id)
    for name in ("A", member_id):
        kshark(
            "report", CAPTURES / "adv-epochs.pcap", "--group", "g", "--member", name, "--picture", tmp_path / "a.svg"
        )
        shown = words((tmp_path / "a.svg").read_text())
        assert shown[0] == f"Share group g, member {name}"
        assert all(" A " in text for text in shown if text.startswith("session epochs"))


def test_a_clean_member_gives_the_exit_code_0(kshark: Run, tmp_path: Path) -> None:
    done = kshark("report", written(tmp_path), "--group", "audit", "--picture", tmp_path / "audit.svg")
    assert done.code == 0


def test_an_event_of_the_members_broker_is_a_numbered_band() -> None:
    given = broken(**EVENT)
    given.members = [member("m"), member("n", broker="10.0.0.8:9092")]
    records = Bins(10)
    for second in (0, 20):
        records.add(1_795_000_000_000_000_000 + (second - 5) * 1_000_000_000, "acquired", 3)
    svg = picture(Subject("billing"), given, records)
    shown = words(svg)
    assert "BROKER_DOWN" in shown
    assert "1" in shown
    assert any(text.startswith("1 BROKER_DOWN, 11:06:40.000 to 11:06:49.000: ") for text in shown)
    given.members = given.members[1:]
    assert "BROKER_DOWN" not in words(picture(Subject("billing"), given, records))


def test_names_of_a_capture_stay_text() -> None:
    name = "</style></svg><script>alert(1)</script>\x1b\x00"
    given = broken(client_id=name, group_id=name, member_id=name)
    given.members = [member(name)]
    svg = picture(Subject(name, name), given, Bins(1))
    tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
    assert f"{_SVG}script" not in tags
    assert svg.count("<style>") == 1


def test_a_picture_needs_nothing_from_elsewhere() -> None:
    svg = picture(Subject("g"), report(members=[member("m")]), Bins(1))
    assert "var(" not in svg
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in svg


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--group", "billing"], "name its file with --picture FILE.svg"),
        (["--picture", "x.svg"], "--picture needs the name of a share group"),
        (["--group", "billing", "--picture", "x.jpg"], "ends with neither .svg nor .png"),
        (["--group", "billing", "--picture", "x.svg", "-o", "out"], "give one of them"),
        (["--group", "billing", "--picture", "absent/x.svg"], "there is no folder absent"),
        (["--group", "biling", "--picture", "x.svg"], 'no share request of group "biling"; did you mean "billing"?'),
        (["--group", "x", "--picture", "x.svg"], "its groups: billing, audit"),
        (
            ["--group", "billing", "--member", "c", "--picture", "x.svg"],
            'group "billing" has no member "c"; its members:',
        ),
    ],
)
def test_bad_usage_is_one_sentence_with_the_next_step(
    kshark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    done = kshark("report", "incident.pcap", *given)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert sentence in done.err
    assert not (tmp_path / "x.svg").exists()


def test_a_picture_is_of_one_capture(kshark: Run, tmp_path: Path) -> None:
    one, two = written(tmp_path, name="1.pcap"), written(tmp_path, name="2.pcap")
    done = kshark("report", one, two, "--each", "--group", "billing", "--picture", tmp_path / "x.svg")
    assert (done.code, "a picture is of one capture" in done.err) == (2, True)
    packets = incident()
    rotated = [written(tmp_path, part, name) for part, name in ((packets[:12], "a.pcap"), (packets[12:], "b.pcap"))]
    assert kshark("report", *rotated, "--group", "billing", "--picture", tmp_path / "x.svg").code == 1


def test_records_without_an_answer_are_no_acknowledged_records() -> None:
    """An unanswered acknowledgement, and one that the broker refuses, are counted apart."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    a.share_acknowledge(1, acks=[(0, 4, 1)]).answered(
        responses=[{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "error_code": 121}]}]
    )
    a.share_acknowledge(2, acks=[(5, 6, 1)])
    records = GroupRecords()
    for exchange in events(talk):
        if isinstance(exchange, Exchange):
            records.feed(exchange)
    counts = {kind: count for (_, kind), count in records.times.cells.items()}
    assert counts == {"acks refused by the broker": 5, "acks without an answer": 2}
