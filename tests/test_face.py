"""The Python face: messages and findings of captures, on real traffic."""

from __future__ import annotations

from pathlib import Path

import pytest

import kshark
from tests.shared import CAPTURES


def is_plain(value: object) -> bool:
    """Dicts and lists of them, down to what Python itself has."""
    if type(value) is dict:
        return all(type(name) is str and is_plain(inner) for name, inner in value.items())
    return (
        all(map(is_plain, value))
        if type(value) in (list, tuple)
        else type(value) in (str, int, float, bool, bytes, type(None))
    )


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_every_message_has_a_body_of_plain_values_or_none(capture: Path) -> None:
    bodies = [message.body for message in kshark.read(capture, records=False)]
    assert bodies
    assert {type(body) for body in bodies} <= {dict, type(None)}
    assert all(map(is_plain, bodies))


def test_several_files_are_one_capture() -> None:
    whole = list(kshark.read(CAPTURES / "adv-epochs.pcap", CAPTURES / "adv-acks.pcap", records=False))
    times = [message.time_ns for message in whole]
    assert times == sorted(times)
    assert len({message.flow for message in whole}) > 10


def test_findings_come_by_packet() -> None:
    found = list(kshark.check(CAPTURES / "adv-epochs.pcap"))
    assert [finding.packet for finding in found] == sorted(finding.packet for finding in found)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_text("no packets")
    with pytest.raises(kshark.UnreadableInput):
        list(kshark.read(tmp_path / "x.pcap"))


def test_a_body_goes_there_and_back() -> None:
    message = next(
        m for m in kshark.read(CAPTURES / "adv-epochs.pcap") if m.api == "ShareFetch" and m.kind == "request"
    )
    data = kshark.encode(78, message.version, "request", message.body)
    assert kshark.decode(78, message.version, "request", data) == message.body
