"""`kshark annotate`: the whole capture, with findings as comments of packets."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kshark.capture import open_captures
from tests.capture.files import Pcapng, rows
from tests.cli.command import Run
from tests.cli.incident import incident
from tests.evidence.reading import comments
from tests.shared import CAPTURES

CAPTURE = CAPTURES / "adv-epochs.pcap"


def test_findings_become_comments_of_their_packets(kshark: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = kshark("annotate", CAPTURE, "-o", out)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("kshark: wrote 354 packets to ")
    noted = comments(out)
    for finding in kshark("check", CAPTURE, "-T", "json").findings:
        assert f"kshark: {finding['code']}: {finding['verdict']}" in noted[finding["packet"]]
        for witness in finding["witness"]:
            for packet in (witness["request_packet"], witness["response_packet"]):
                assert packet is None or f"{finding['code']}" in noted[packet]


def test_the_capture_is_the_same(kshark: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    kshark("annotate", CAPTURE, "-o", out)
    assert [*rows(open_captures([out]))] == [*rows(open_captures([CAPTURE]))]
    assert kshark("check", out, "-T", "json").out == kshark("check", CAPTURE, "-T", "json").out


def test_messages_of_share_groups_are_decoded_on_request(kshark: Run, tmp_path: Path) -> None:
    kshark("annotate", CAPTURE, "-o", tmp_path / "few.pcapng")
    kshark("annotate", CAPTURE, "-o", tmp_path / "many.pcapng", "--messages")
    few, many = comments(tmp_path / "few.pcapng"), comments(tmp_path / "many.pcapng")
    assert few.keys() < many.keys()
    assert many[201] == "kshark: request WriteShareGroupState v1 #6 group=g xJnkBrugRia3o1iGiLN1GA[0] state_batches=2"
    assert "epoch=4 xJnkBrugRia3o1iGiLN1GA[0] acks=2 (epoch due: 4)" in many[200]


def test_comments_of_the_capture_stay(kshark: Run, tmp_path: Path) -> None:
    file = Pcapng().section().interface(1, 0, (9, b"\x09"))
    for packet in incident():
        file.enhanced(packet.data, packet.time_ns, (1, b"seen by hand"))
    (tmp_path / "a.pcapng").write_bytes(bytes(file))
    kshark("annotate", tmp_path / "a.pcapng", "-o", tmp_path / "b.pcapng")
    noted = comments(tmp_path / "b.pcapng")
    assert len(noted) == len(incident())
    assert all(text.startswith("seen by hand") for text in noted.values())
    assert any("kshark: EPOCH_SKIP_AHEAD" in text for text in noted.values())


def test_only_chosen_codes(kshark: Run, tmp_path: Path) -> None:
    kshark("annotate", CAPTURE, "-o", tmp_path / "out.pcapng", "--select", "TWO_COUNTERS")
    assert comments(tmp_path / "out.pcapng").keys() == {200, 204, 207, 212, 213, 215}


@pytest.mark.parametrize("words", [["--each", CAPTURE]])
def test_one_capture_only(kshark: Run, words: list[object], tmp_path: Path) -> None:
    done = kshark("annotate", CAPTURE, *words, "-o", tmp_path / "x")
    assert done.code == 2
    assert done.err == "kshark: annotate writes one file; name one capture, or leave out --each\n"


def test_a_file_that_is_no_capture_is_one_sentence_and_leaves_no_file(kshark: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(struct.pack("<I", 7) * 20)
    done = kshark("annotate", tmp_path / "a.txt", "-o", tmp_path / "x")
    assert done.code == 2
    assert [it.name for it in tmp_path.iterdir()] == ["a.txt"]
