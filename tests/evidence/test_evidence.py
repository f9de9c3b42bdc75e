"""`kshark check --evidence`: each case has a small capture that gives the same finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kshark as face
from tests.cli.command import Run
from tests.evidence.reading import comments, result_of
from tests.packets import pcap
from tests.shared import CAPTURES, SHARED, every

ADVERSARIAL = sorted([*CAPTURES.glob("adv-*.pcap"), *CAPTURES.glob("aimed*.pcap"), CAPTURES / "java-limit.pcap"])
#: Real captures that hurt: evidence of everything in them takes minutes.
HARD = [
    pytest.param(path, marks=pytest.mark.slow)
    for folder in ("walks", "field")
    for path in sorted((SHARED / "captures" / folder).glob("*.pcap*"))
]


def cases(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def described(case: Path) -> dict[str, dict[str, object]]:
    """The lines of finding.json, by what they are."""
    finding, *others = map(json.loads, (case / "finding.json").read_text().splitlines())
    return {"finding": finding, **{key: value for line in others for key, value in line.items()}}


@pytest.mark.parametrize("path", ADVERSARIAL + every(HARD), ids=lambda path: getattr(path, "name", "none"))
def test_the_evidence_gives_the_same_finding(kshark: Run, path: Path, tmp_path: Path) -> None:
    done = kshark("check", path, "--evidence", tmp_path / "e", "-q")
    assert "bug" not in done.err
    proved = {result_of(it): it for it in face.check(path)}
    seen = set()
    for case in cases(tmp_path / "e"):
        line = described(case)
        finding = line["finding"]
        assert line["evidence"]["reproduces"], f"{case.name} does not give its finding"
        again = {result_of(it) for it in face.check(case / f"{case.name}.pcapng") if it.code == finding["code"]}
        same = (finding["code"], finding["verdict"], finding["cause"], finding["packet"])
        (original,) = [it for it in proved if (it[0], it[1], it[3], proved[it].packet) == same][:1]
        assert original in again
        seen.add((finding["code"], finding["verdict"], finding["cause"]))
    assert {(it[0], it[1], it[3]) for it in proved if it[1] != "note"} <= seen


@pytest.fixture(scope="module")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evidence of a capture."""
    from kshark.cli import main

    folder = tmp_path_factory.mktemp("evidence")
    assert main(["check", str(CAPTURES / "adv-epochs.pcap"), "--evidence", str(folder), "-q"]) == 1
    return folder


def case_of(folder: Path, code: str) -> Path:
    return next(case for case in cases(folder) if f"-{code}-" in case.name)


def test_a_case_has_three_files_named_by_code_cause_and_client(epochs: Path) -> None:
    case = case_of(epochs, "TWO_COUNTERS")
    assert case.name == "004-TWO_COUNTERS-two_counters-A"
    assert sorted(it.name for it in case.iterdir()) == [f"{case.name}.pcapng", "finding.json", "finding.txt"]


def test_the_text_says_what_where_and_how_to_see_it_again(epochs: Path) -> None:
    text = (case_of(epochs, "TWO_COUNTERS") / "finding.txt").read_text()
    assert text.startswith("Client A (raw-share-client 1.0) counted ShareFetch and ShareAcknowledge separately, ")
    assert "→ Keep one count for both." in text
    assert "kshark explain TWO_COUNTERS · packets 200 204 207 212 213 215" in text
    assert "  kshark check 004-TWO_COUNTERS-two_counters-A.pcapng --details TWO_COUNTERS" in text
    assert "request ShareAcknowledge v2 #31 group=g member=6L2wg8gJQne7ftm-XDlUYw epoch=5" in text
    assert "(epoch due: 6)" in text
    assert "It gives the same finding." in text


def test_no_file_names_a_folder_of_the_machine(epochs: Path) -> None:
    for file in (file for case in cases(epochs) for file in case.iterdir()):
        assert str(CAPTURES).encode() not in file.read_bytes()
        assert str(epochs).encode() not in file.read_bytes()


def test_packets_have_comments(epochs: Path) -> None:
    case = case_of(epochs, "TWO_COUNTERS")
    line = described(case)
    noted = comments(case / f"{case.name}.pcapng")
    proof = noted[line["evidence"]["packet"]]
    assert "kshark: response ShareAcknowledge v2 #31" in proof
    assert "kshark: TWO_COUNTERS: violation by client A · two_counters. The client counts" in proof
    assert "Must be: ShareFetch and ShareAcknowledge share one epoch." in proof
    assert all("kshark: " in text for text in noted.values())


def test_alike_findings_share_a_case_unless_each_is_asked_for(kshark: Run, epochs: Path, tmp_path: Path) -> None:
    line = described(case_of(epochs, "EPOCH_SKIP_AHEAD"))
    assert (line["evidence"]["findings"], line["evidence"]["packets_of_findings"]) == (2, [175, 217])
    kshark("check", CAPTURES / "adv-epochs.pcap", "--evidence", tmp_path, "--per", "finding", "-q")
    assert len([case for case in cases(tmp_path) if "EPOCH_SKIP_AHEAD" in case.name]) == 2


def test_violations_come_first_by_weight_and_notes_only_by_name(kshark: Run, epochs: Path, tmp_path: Path) -> None:
    order = ["violation", "unknown", "note"]
    verdicts = [order.index(str(described(case)["finding"]["verdict"])) for case in cases(epochs)]
    assert verdicts == sorted(verdicts)
    assert not any("SESSION_REOPEN" in case.name for case in cases(epochs))
    kshark("check", CAPTURES / "adv-epochs.pcap", "--select", "SESSION_REOPEN", "--evidence", tmp_path, "-q")
    assert all("SESSION_REOPEN" in case.name for case in cases(tmp_path))
    assert cases(tmp_path)


def test_what_was_written_is_said_also_without_items(kshark: Run, tmp_path: Path) -> None:
    done = kshark("check", CAPTURES / "adv-epochs.pcap", "--select", "TWO_COUNTERS", "--evidence", tmp_path, "-q")
    assert f"kshark: wrote evidence of 1 case to {tmp_path} (" in done.err
    none = kshark("check", CAPTURES / "share-java-renew.pcap", "--evidence", tmp_path / "none", "-q")
    assert "kshark: no evidence was written: " in none.err


def test_a_finding_that_rests_on_others_is_widened(kshark: Run, tmp_path: Path) -> None:
    kshark("check", CAPTURES / "adv-frames.pcap", "--evidence", tmp_path, "-q")
    wide = [case for case in cases(tmp_path) if described(case)["evidence"]["reach"] == "brokers"]
    assert wide
    assert "did not: the finding also" in (wide[0] / "finding.txt").read_text()


def test_an_earlier_run_is_replaced_and_other_files_are_not(kshark: Run, trace: Path, tmp_path: Path) -> None:
    assert kshark("check", trace, "--evidence", tmp_path).code == 1
    first = cases(tmp_path)
    assert kshark("check", trace, "--evidence", tmp_path).code == 1
    assert cases(tmp_path) == first
    (first[0] / "mine.txt").write_text("notes")
    done = kshark("check", trace, "--evidence", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"kshark: {tmp_path} contains {first[0].name}, which is not evidence of an earlier run; name an empty folder "
        "with --evidence\n"
    )
    assert (first[0] / "mine.txt").exists()


def test_rotated_files_are_one_capture_and_named_without_their_folder(kshark: Run, tmp_path: Path) -> None:
    whole = CAPTURES / "adv-acks.pcap"
    from kshark.capture import open_captures
    from tests.capture.files import rows
    from tests.packets import Packet

    packets = [Packet(it.time_ns, it.data, it.wire_length, it.link_type) for it in rows(open_captures([whole]))]
    half = len(packets) // 2
    for name, part in (("a.pcap", packets[:half]), ("b.pcap", packets[half:])):
        (tmp_path / name).write_bytes(pcap(part, link_type=packets[0].link_type))
    kshark("check", tmp_path / "a.pcap", tmp_path / "b.pcap", "--evidence", tmp_path / "e", "-q")
    kshark("check", whole, "--evidence", tmp_path / "w", "-q")
    assert [it.name for it in cases(tmp_path / "e")] == [it.name for it in cases(tmp_path / "w")]
    for case in cases(tmp_path / "e"):
        assert described(case)["evidence"]["reproduces"]
        assert str(tmp_path) not in (case / "finding.txt").read_text() + (case / "finding.json").read_text()


def test_names_of_clients_cannot_leave_the_folder(kshark: Run, tmp_path: Path) -> None:
    from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation

    talk = Conversation()
    member = talk.member("../../x\x1b[2J/y", group="g")
    member.share_fetch(0).answered()
    member.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    (tmp_path / "a.pcap").write_bytes(pcap(talk.wire.packets))
    kshark("check", tmp_path / "a.pcap", "--evidence", tmp_path / "e")
    (case,) = [it for it in cases(tmp_path / "e") if "EPOCH_SKIP" in it.name]
    assert "\x1b" not in (case / "finding.txt").read_text()
    assert case.parent == tmp_path / "e"


def test_notes_are_not_written_unless_they_are_named(kshark: Run, tmp_path: Path) -> None:
    done = kshark("check", CAPTURES / "share-java-explicit-4.1.2.pcap", "--evidence", tmp_path / "e")
    assert "there are only notes, whose codes must be named (--select POISON_RECORD)" in done.err


def test_nothing_is_written_if_nothing_is_wrong(kshark: Run, tmp_path: Path) -> None:
    done = kshark("check", CAPTURES / "java-limit.pcap", "--select", "EPOCH_REPLAY", "--evidence", tmp_path / "e")
    assert "no evidence was written" in done.err
    assert cases(tmp_path / "e") == []
