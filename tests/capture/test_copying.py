"""Copies of packets: whatever file they come from, they keep their bytes, times, interfaces, options and secrets."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from kshark.capture import open_captures
from kshark.capture.copying import Copy, copy, own_keys
from kshark.capture.selection import Selection
from kshark.model import Ends
from tests.capture.files import Pcapng, Row, rows
from tests.packets import START_NS, Packet, Tcp, Wire, pcap, tcp_packet
from tests.shared import CAPTURES, SHARED_CAPTURES, every, sample_of

COMMENT, NAME, FLAGS, DROPPED, SPEED, RESOLUTION = 1, 2, 2, 4, 8, 9
CLIENT, BROKER = "10.0.0.1:50001", "10.0.0.9:9092"


def copied(folder: Path, files: Sequence[Path], **options: object) -> Path:
    out = folder / "copy.pcapng"
    with out.open("wb") as file:
        copy(files, [Copy(file.write, **options)])  # type: ignore[arg-type]
    return out


def packets(*files: Path) -> list[Row]:
    return [row._replace(number=0) for row in rows(open_captures(files))]


def blocks(path: Path) -> list[tuple[int, bytes]]:
    """Type and body of each block."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + size - 4) == (size,)
        found.append((kind, data[at + 8 : at + size - 4]))
        at += size
    return found


def options(body: bytes) -> list[tuple[int, bytes]]:
    at, found = 0, []
    while at < len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code:
            found.append((code, body[at + 4 : at + 4 + size]))
        at += 4 + size + (-size & 3)
    return found


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_a_copy_has_the_packets_of_the_capture(path: Path, tmp_path: Path) -> None:
    assert packets(copied(tmp_path, [path])) == packets(path)


@pytest.mark.parametrize("path", sample_of(every(SHARED_CAPTURES), 5, 1) if SHARED_CAPTURES else every([]))
def test_a_copy_has_the_packets_of_any_capture(path: Path, tmp_path: Path) -> None:
    assert packets(copied(tmp_path, [path])) == packets(path)


def test_several_files_are_merged_in_order_of_time(tmp_path: Path) -> None:
    sent = [tcp_packet(CLIENT, BROKER, number, 0, 16, b"x", time_ns=START_NS + number) for number in range(40)]
    (tmp_path / "a.pcap").write_bytes(pcap(sent[::2]))
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(pcap(sent[1::2])))
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap.gz"]
    assert [row.data for row in packets(copied(tmp_path, files))] == [packet.data for packet in sent]


def test_packets_that_were_written_late_are_sorted(tmp_path: Path) -> None:
    sent = [tcp_packet(CLIENT, BROKER, number, 0, 16, b"x", time_ns=START_NS + number * 1000) for number in range(40)]
    late = Random(1).sample(sent, len(sent))
    file = tmp_path / "late.pcap"
    file.write_bytes(pcap(late))
    assert [row.data for row in packets(copied(tmp_path, [file]))] == [packet.data for packet in sent]


@pytest.mark.parametrize("order", ["<", ">"])
def test_interfaces_and_options_are_kept(order: str, tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    written = Pcapng().section(order)
    written.interface(1, 96, (NAME, b"eth0"), (SPEED, struct.pack(order + "Q", 10**9)))
    written.interface(113, 0, (NAME, b"any"), (RESOLUTION, b"\x09"))
    written.enhanced(b"first", 7, (COMMENT, b"look here"), (FLAGS, struct.pack(order + "I", 1)))
    written.enhanced(b"second", 9001, (DROPPED, struct.pack(order + "Q", 3)), interface=1, wire=60)
    written.obsolete(b"third", 10, drops=5)
    file.write_bytes(bytes(written))
    made = copied(tmp_path, [file], comments={1: ["and here", "ä"]})
    found = blocks(made)
    assert [options(body[8:]) for kind, body in found if kind == 1] == [
        [(NAME, b"eth0"), (SPEED, struct.pack("<Q", 10**9)), (RESOLUTION, b"\x09")],
        [(NAME, b"any"), (RESOLUTION, b"\x09")],
    ]
    first, second, third = [(body[:20], body[20:]) for kind, body in found if kind == 6]
    assert struct.unpack("<IIIII", first[0]) == (0, 0, 7000, 5, 5)
    assert options(first[1][8:]) == [
        (COMMENT, b"look here"),
        (FLAGS, struct.pack("<I", 1)),
        (COMMENT, b"and here"),
        (COMMENT, "ä".encode()),
    ]
    assert struct.unpack("<IIIII", second[0]) == (1, 0, 9001, 6, 60)
    assert options(second[1][8:]) == [(DROPPED, struct.pack("<Q", 3))]
    assert options(third[1][8:]) == [(DROPPED, struct.pack("<Q", 5))]
    assert packets(made) == packets(file)


def test_dropped_packets_of_an_interface_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    written = Pcapng().section().interface().enhanced(b"first", 7).statistics((5, struct.pack("<Q", 12)))
    file.write_bytes(bytes(written))
    (statistics,) = [body for kind, body in blocks(copied(tmp_path, [file])) if kind == 5]
    assert options(statistics[12:]) == [(5, struct.pack("<Q", 12))]


def test_sections_with_the_same_interfaces_become_one(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    written = Pcapng()
    for order in "<><":
        written.section(order).interface(1, 0, (NAME, b"eth0")).enhanced(b"x", 1)
    file.write_bytes(bytes(written))
    kinds = [kind for kind, _ in blocks(copied(tmp_path, [file]))]
    assert kinds == [0x0A0D0D0A, 1, 6, 6, 6]


def conversation() -> list[Packet]:
    wire = Wire()
    for port in (50001, 50002):
        tcp = Tcp(wire, f"10.0.0.1:{port}", BROKER).open()
        for number in range(5):
            tcp.client(b"request %d" % number)
            tcp.broker(b"answer %d" % number)
        tcp.close()
    return wire.packets


def test_a_stretch_of_a_connection_is_chosen_with_its_opening(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(conversation()))
    selection = Selection(handshakes=True)
    selection.add(Ends(BROKER, CLIENT), 6, 7)  # in whatever order
    with (tmp_path / "b.pcapng").open("wb") as out:
        done = Copy(out.write, selection)
        copy([file], [done])
    assert list(done.numbers) == [1, 2, 3, 6, 7]


def test_fragments_are_chosen_with_the_packets_they_belong_to(tmp_path: Path) -> None:
    whole = tcp_packet(CLIENT, BROKER, 1, 1, 16, b"y" * 64, time_ns=START_NS)
    head, ip, inner = whole.data[:14], whole.data[14:34], whole.data[34:]
    parts = []
    for at, more in ((0, True), (40, False)):
        piece = inner[at : at + 40] if more else inner[at:]
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(piece), 7, (0x2000 if more else 0) | at // 8, 64, 6, 0)
        data = head + header + ip[12:] + piece
        parts.append(Packet(START_NS, data, len(data)))
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap([*parts, *conversation()]))
    selection = Selection()
    selection.add(Ends(CLIENT, BROKER), 1, 2)
    with (tmp_path / "b.pcapng").open("wb") as out:
        done = Copy(out.write, selection)
        copy([file], [done])
    assert list(done.numbers) == [1, 2]


def test_only_the_secrets_of_chosen_connections_are_needed() -> None:
    log = b"# made by a client\nCLIENT_RANDOM AA01 bb\nCLIENT_RANDOM cc02 dd\n"
    assert own_keys(log, {"aa01"}) == b"CLIENT_RANDOM AA01 bb\n"
    assert own_keys(log, None) == log


def test_a_comment_that_is_too_long_is_cut_between_letters(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(conversation()[:1]))
    made = copied(tmp_path, [file], comments={1: ["x" + "ä" * 40_000]})
    ((_, body),) = [block for block in blocks(made) if block[0] == 6]
    size = struct.unpack_from("<I", body, 12)[0]
    ((code, text),) = options(body[20 + size + (-size & 3) :])
    assert code == COMMENT
    assert text.decode() == "x" + "ä" * 29_999


def test_a_capture_without_packets_is_a_file_without_packets(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap([]))
    assert [kind for kind, _ in blocks(copied(tmp_path, [file]))] == [0x0A0D0D0A]
