"""`kshark read -w`: the packets of messages, as a capture that can be read again."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import kshark as face
from tests.cli.command import Run
from tests.evidence.reading import key, messages
from tests.packets import pcap
from tests.shared import CAPTURES, SHARED, every

REFUSED = "kafka.error_code == INVALID_SHARE_SESSION_EPOCH"


def test_messages_are_written_with_their_other_sides(kshark: Run, trace: Path, tmp_path: Path) -> None:
    done = kshark("read", trace, "-Y", REFUSED, "-w", tmp_path / "out.pcapng")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("kshark: wrote 1 message and the other side of each, in ")
    request, response = face.read(tmp_path / "out.pcapng")
    assert (request.kind, response.kind) == ("request", "response")
    assert request.body["share_session_epoch"] == 3
    assert response.body["error_code"] == 123


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("aimed.pcap", "kafka.api == ShareGroupHeartbeat"),
        ("tcp-hostile.pcap", "kafka.latency_ms > 5"),
        ("adv-frames.pcap", "kafka.api == ShareFetch"),
        ("two-interfaces.pcapng", "kafka.response"),
        ("produce-mix.pcap", "kafka.api == Produce"),
        ("seed-messy.pcap", "kafka.group_id contains '1'"),
    ],
)
def test_all_that_pass_can_be_read_again(kshark: Run, name: str, shown: str, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    done = kshark("read", CAPTURES / name, "-Y", shown, "-w", out)
    assert "cannot be read again" not in done.err
    passed = {line["packet"] for line in kshark("read", CAPTURES / name, "-Y", shown, "-T", "json").json}
    chosen = [key(it) for it in face.read(CAPTURES / name) if it.packet in passed]
    assert passed
    assert {*chosen} <= {*messages(out)}
    assert len(messages(out)) < len(messages(CAPTURES / name))


HARD = ("field/odd-snap128.pcap", "field/share-future-version.pcap", "clients/mid120k.pcap")


@pytest.mark.parametrize("name", every([*HARD] if SHARED.exists() else []))
def test_a_connection_is_widened_where_a_message_is_not_recognised_alone(
    kshark: Run, name: str, tmp_path: Path
) -> None:
    path, out = SHARED / "captures" / name, tmp_path / "out.pcapng"
    last = [message for message in face.read(path) if message.kind == "response"][-1]
    shown = f"frame.number == {last.packet}"
    done = kshark("read", path, "-Y", shown, "-w", out)
    assert "cannot be read again" not in done.err
    assert key(last) in messages(out)


def test_a_number_of_messages_is_written(kshark: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    kshark("read", trace, "-Y", "kafka.api == ShareFetch", "-c", "2", "-w", out)
    assert [it.kind for it in face.read(out)].count("request") == 1
    assert [it.kind for it in face.read(out)].count("response") == 1


def test_without_a_filter_all_messages_are_written(kshark: Run, trace: Path, tmp_path: Path) -> None:
    kshark("read", trace, "-w", tmp_path / "out.pcapng")
    assert messages(tmp_path / "out.pcapng") == messages(trace)


def test_a_period_is_respected(kshark: Run, trace: Path, tmp_path: Path) -> None:
    kshark("read", trace, "--since", "+4s", "-w", tmp_path / "out.pcapng")
    late = [key(it) for it in face.read(trace)]
    assert 0 < len(messages(tmp_path / "out.pcapng")) < len(late)
    assert {*messages(tmp_path / "out.pcapng")} <= {*late}


def test_standard_output_gets_the_file(
    kshark: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kshark("read", trace, "-Y", REFUSED, "-w", tmp_path / "out.pcapng")
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    kshark("read", trace, "-Y", REFUSED, "-w", "-")
    assert stream.buffer.getvalue() == (tmp_path / "out.pcapng").read_bytes()  # type: ignore[attr-defined]


def test_nothing_passes_and_the_file_has_no_packets(kshark: Run, trace: Path, tmp_path: Path) -> None:
    done = kshark("read", trace, "-Y", "kafka.api == Produce", "-w", tmp_path / "out.pcapng")
    assert done.code == 0
    assert "wrote 0 messages" in done.err
    assert messages(tmp_path / "out.pcapng") == []


def test_bad_usage_is_one_sentence(kshark: Run, trace: Path, tmp_path: Path) -> None:
    for words, sentence in (
        ((trace, "-w", trace), "is the capture itself"),
        ((trace, "-w", tmp_path), "is a folder"),
        ((trace, "-w", tmp_path / "nowhere" / "a"), "make it first"),
        ((trace, "-w", tmp_path / "a", "-V"), "leave out -T, -V and -e"),
        ((trace, trace, "--each", "-w", tmp_path / "a"), "leave out --each"),
    ):
        done = kshark("read", *words)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err
        assert done.err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_standard_input_must_be_saved_first(kshark: Run, tmp_path: Path) -> None:
    for words in (("read", "-", "-w", "x"), ("check", "-", "--evidence", "x"), ("annotate", "-", "-o", "x")):
        done = kshark(*words)
        assert done.code == 2
        assert "standard input can be read only once; save it to a file first" in done.err


def test_an_empty_capture_is_no_error(kshark: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").write_bytes(pcap([]))
    assert kshark("read", tmp_path / "empty.pcap", "-w", tmp_path / "out.pcapng").code == 0
