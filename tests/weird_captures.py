"""For every code that a stage may tell, a capture in which it does: one of the bundled ones, or one made here, packet
by packet."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from kshark import encode, limits
from kshark.capture import captures, source
from kshark.capture.numbering import Numbering
from kshark.capture.source import open_capture
from kshark.link import stage as link_stage
from kshark.link.ends import EndsTable
from kshark.model import ACK
from kshark.records import Record
from kshark.records.writer import write_batch
from kshark_dissectors.index import INDEX
from tests.capture.files import Pcapng, rows
from tests.conformance.malformed import CATALOGUE as MALFORMED
from tests.embedding import batch_of, exchange, request_frame, response_frame
from tests.link.frames import Tcp as Segment
from tests.link.frames import ethernet, ipv4, packet, udp
from tests.packets import START_NS, Packet, Tcp, Wire, pcap, tcp_packet
from tests.shared import CAPTURES

FRAME: Final = ethernet(Segment())
RAW_IP: Final = 101
NO_LINK_TYPE: Final = 250


@dataclass
class Bench:
    """Where a maker works: a folder for its files, and what it changes until the test is over."""

    folder: Path
    patch: pytest.MonkeyPatch

    def limit(self, **to: int) -> None:
        for name, value in to.items():
            self.patch.setattr(limits, name, value)

    def file(self, data: bytes, name: str = "made.pcap") -> list[Path]:
        path = self.folder / name
        path.write_bytes(data)
        return [path]

    def packets(self, packets: Iterable[Packet]) -> list[Path]:
        rows = list(packets)
        return self.file(pcap(rows, link_type=rows[0].link_type))

    def frame(self, data: bytes, link_type: int = 1, **how: Any) -> list[Path]:
        return self.packets([packet(data, link_type, **how)])

    def talk(self, *frames: tuple[str, bytes]) -> list[Path]:
        """A connection on which `client` and `broker` send these frames, one after the other."""
        wire = Wire()
        tcp = Tcp(wire).open()
        for side, data in frames:
            getattr(tcp, side)(struct.pack(">i", len(data)) + data)
        return self.packets(wire.packets)

    def sent(self, data: bytes) -> list[Path]:
        """A connection on which the client sends these bytes, and the broker resets it."""
        wire = Wire()
        tcp = Tcp(wire).open()
        tcp.client(data)
        tcp.reset(1)
        return self.packets(wire.packets)


Maker = Callable[[Bench], list[Path]]


def bundled(name: str) -> Maker:
    return lambda bench: [CAPTURES / name]


# -- files


def pcapng() -> Pcapng:
    return Pcapng().section().interface()


def cut(bench: Bench) -> list[Path]:
    return bench.file(pcap([packet(FRAME)])[:-3])


def packet_without_end(bench: Bench) -> list[Path]:
    return bench.file(pcap([packet(FRAME)]) + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + bytes(50))


def block_of_two_lengths(bench: Bench) -> list[Path]:
    return bench.file(bytes(pcapng().enhanced(FRAME, 1))[:-4] + bytes(4), "made.pcapng")


def another_interface(bench: Bench) -> list[Path]:
    return bench.file(bytes(pcapng().enhanced(FRAME, 1, interface=7)), "made.pcapng")


def two_connections() -> list[Packet]:
    wire = Wire()
    for client in ("10.0.0.1:50001", "10.0.0.2:50002"):
        Tcp(wire, client).open().client(b"abc")
    return wire.packets


def captured_twice(bench: Bench) -> list[Path]:
    return bench.packets([one for one in two_connections() for _ in range(2)])


def times_that_run_backwards(bench: Bench) -> list[Path]:
    half = len(packets := two_connections()) // 2
    return bench.packets(
        [*packets[:half], *(replace(one, time_ns=one.time_ns - 1_000_000_000) for one in packets[half:])]
    )


def late_packets(bench: Bench) -> list[Path]:
    packets = two_connections()
    return bench.packets([*packets[:-2], packets[-1], packets[-2]])


def later_than_the_limit(bench: Bench) -> list[Path]:
    """A packet that should stand before others that no longer waited for it."""
    bench.limit(SORTED_PACKETS=10)
    packets = [packet(FRAME, time_ns=START_NS + at) for at in range(2_000)]
    return bench.packets([*packets[1:], packets[0]])


def answers_stamped_late(bench: Bench) -> list[Path]:
    """Frames of the server, by their source port, are five milliseconds late."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for _ in range(2):
        tcp.client(b"abc")
        tcp.broker(b"def")
    late = [
        replace(one, time_ns=one.time_ns + 5_000_000 * (one.data[34:36] == struct.pack(">H", 9092)))
        for one in wire.packets
    ]
    return bench.packets(sorted(late, key=lambda one: one.time_ns))


def drops(bench: Bench) -> list[Path]:
    return bench.file(bytes(pcapng().enhanced(FRAME, 1).statistics((5, struct.pack("<Q", 3)))), "made.pcapng")


def gzip_cut(bench: Bench) -> list[Path]:
    return bench.file(gzip.compress(pcap([packet(FRAME)] * 400))[:-20], "made.pcap.gz")


def gzip_and_more(bench: Bench) -> list[Path]:
    return bench.file(gzip.compress(pcap([packet(FRAME)])) + b"something else", "made.pcap.gz")


def files_in_turn(bench: Bench) -> list[Path]:
    bench.patch.setattr(captures, "Numbering", partial(Numbering, limit=10))
    files = [pcap(packet(FRAME, time_ns=2 * at + file) for at in range(30)) for file in (0, 1)]
    return [path for number, data in enumerate(files) for path in bench.file(data, f"{number}.pcap")]


# -- packets


def many_pairs(bench: Bench) -> list[Path]:
    """More than twice as many as are held, of which a batch has a few."""
    bench.patch.setattr(link_stage, "EndsTable", partial(EndsTable, 200))
    for size in ("HEAD_READ", "BATCH_BYTES"):
        bench.patch.setattr(source, size, 8192)
    return bench.packets(packet(ethernet(Segment(ports=(port, 9092)))) for port in range(600))


def sent_again(bench: Bench) -> list[Path]:
    """Bytes are sent again, and acknowledged late."""
    wire = Wire()
    tcp = Tcp(wire).open()
    (first,) = tcp.client(b"abc")
    wire.pause(1)
    wire.add(wire.packets[first - 1])
    tcp.acknowledge(1)
    return bench.packets(wire.packets)


def syn_again(bench: Bench) -> list[Path]:
    wire = Wire()
    Tcp(wire).open()
    wire.packets = wire.packets[:1]
    wire.pause(1)
    wire.add(wire.packets[0])
    return bench.packets(wire.packets)


def window_closed(bench: Bench) -> list[Path]:
    """A receiver has no room for two seconds."""
    wire = Wire()
    tcp = Tcp(wire).open()
    wire.add(tcp_packet(tcp.source, tcp.target, *tcp.seq, ACK, window=0))
    wire.pause(2)
    tcp.acknowledge()
    return bench.packets(wire.packets)


def other_bytes_again(bench: Bench) -> list[Path]:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.seq[0] += 10
    for data in (b"abcdef", b"abcXef"):
        tcp.client(data)
        tcp.seq[0] -= len(data)
    return bench.packets(wire.packets)


def many_connections(bench: Bench) -> list[Path]:
    bench.limit(FLOWS=10)
    wire = Wire()
    for port in range(20):
        Tcp(wire, f"10.0.0.1:{port + 1}").open()
    return bench.packets(wire.packets)


# -- frames and messages


def metadata(correlation_id: int = 1) -> tuple[str, bytes]:
    return "client", request_frame(3, 1, {"topics": None}, correlation_id=correlation_id)


def told(correlation_id: int = 1, **body: Any) -> tuple[str, bytes]:
    return "broker", response_frame(3, 1, body, correlation_id=correlation_id)


def long_answer(bench: Bench) -> list[Path]:
    bench.limit(FRAME_BYTES=20_000)
    return bench.talk(metadata(), told(), metadata(2), ("broker", struct.pack(">i", 2) + bytes(50_000)))


def too_long(bench: Bench) -> list[Path]:
    """Longer than brokers accept by default, and the broker closes the connection."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for side, data in (metadata(), told()):
        getattr(tcp, side)(struct.pack(">i", len(data)) + data)
    tcp.client(struct.pack(">i", limits.REQUEST_BYTES + 1) + metadata(2)[1])
    tcp.reset(1)
    return bench.packets(wire.packets)


def long_first_request(bench: Bench) -> list[Path]:
    """Nobody knows yet that the connection is Kafka."""
    bench.limit(UNFINISHED_BYTES=20_000)
    return bench.talk(("client", metadata()[1] + bytes(50_000)))


def answers_in_another_order(bench: Bench) -> list[Path]:
    return bench.talk(metadata(1), metadata(2), told(2), told(1))


def answer_to_nobody(bench: Bench) -> list[Path]:
    produce = request_frame(0, 9, {"acks": 0, "topic_data": []}, correlation_id=2)
    return bench.talk(metadata(), told(), ("client", produce), told(2))


def given_up(bench: Bench) -> list[Path]:
    wire = Wire()
    tcp = Tcp(wire).open()
    for _, data in (metadata(), metadata(2)):
        tcp.client(struct.pack(">i", len(data)) + data)
    wire.pause(30)
    tcp.close()
    return bench.packets(wire.packets)


def hello_without_keys(bench: Bench) -> list[Path]:
    wire = Wire()
    Tcp(wire).open().client(b"\x16\x03\x01\x00\x2b\x01\x00\x00\x27\x03\x03" + bytes(32) + b"\0\0\2\x13\x01\1\0")
    return bench.packets(wire.packets)


def alert_in_clear(bench: Bench) -> list[Path]:
    """The broker has no cipher suite in common with the client."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\0\0\2\x13\x01\1\0")
    tcp.broker(b"\x15\x03\x03\x00\x02\x02\x28")
    tcp.close()
    return bench.packets(wire.packets)


def many_open(bench: Bench) -> list[Path]:
    bench.limit(OPEN_BYTES=1_500)
    return bench.talk(*map(metadata, (1, 2, 3)))


def nobody_reads_metadata(bench: Bench) -> list[Path]:
    bench.patch.setitem(INDEX, 3, ("Metadata", "", "0-13"))
    return bench.talk(metadata())


def text_before(bench: Bench) -> list[Path]:
    return bench.file(b"tcpdump: listening on eth0\n" + pcap([packet(FRAME)]))


def answer_cut(bench: Bench) -> list[Path]:
    """The snap length leaves the answer's head."""
    [path] = bench.talk(metadata(), told())
    *others, last = rows(open_capture(path))
    kept = [Packet(row.time_ns, row.data, row.wire_length) for row in others]
    return bench.packets([*kept, Packet(last.time_ns, last.data[:66], last.wire_length)])


def many_names(bench: Bench) -> list[Path]:
    bench.limit(TOPICS=3)
    topics = [{"name": name, "topic_id": "A" * 20 + name + "A"} for name in "ghijk"]
    return bench.talk(
        ("client", request_frame(3, 12, {"topics": None})),
        ("broker", response_frame(3, 12, {"topics": topics})),
    )


def malformed(code: str) -> Maker:
    """The first request of the catalogue of malformed bodies in which only that is wrong."""
    body = next(
        each for each in MALFORMED if each.direction == "request" and [fault[0] for fault in each.faults] == [code]
    )
    header = request_frame(body.key, body.version, {}).removesuffix(encode(body.key, body.version, "request", {}))
    return lambda bench: bench.talk(metadata(), told(), ("client", header + bytes.fromhex(body.hex)))


def summary_of_4_0(bench: Bench) -> list[Path]:
    """One result: topic id, partition 0, no error, no text, state epoch 1, start offset 2, and no leader epoch."""
    results = b"\2" + bytes(15) + b"\7" + b"\2" + bytes(4) + bytes(2) + b"\0" + struct.pack(">iq", 1, 2) + bytes(3)
    asked = request_frame(87, 0, {"group_id": "g", "topics": []})
    return bench.talk(("client", asked), ("broker", struct.pack(">i", 1) + b"\0" + results))


def fetched(bench: Bench, topic: str, records: bytes) -> list[Path]:
    wire = Wire()
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
    exchange(Tcp(wire).open(), 1, 12, {"max_wait_ms": 1}, {"responses": [{"topic": topic, "partitions": [partition]}]})
    return bench.packets(wire.packets)


def key_of_no_release(bench: Bench) -> list[Path]:
    return fetched(bench, "__consumer_offsets", batch_of((struct.pack(">h", 24), b"\0\0")))


def many_structures(bench: Bench) -> list[Path]:
    bench.limit(STRUCTURES_PER_MESSAGE=1)
    return fetched(bench, "__consumer_offsets", batch_of(*[(struct.pack(">hhs", 2, 1, b"g"), None)] * 3))


def bomb(bench: Bench) -> list[Path]:
    bench.limit(DECOMPRESSED_BYTES=100_000)
    return fetched(bench, "t", write_batch([Record(0, 0, None, bytes(1_000_000), ())], codec="gzip"))


def many_records(bench: Bench) -> list[Path]:
    bench.limit(MESSAGE_RECORDS=2)
    return fetched(bench, "t", batch_of(*[(None, b"")] * 3))


def log_with_other_lines(bench: Bench) -> list[Path]:
    """A broker's request log with a line of another logger in it."""
    log = gzip.decompress((CAPTURES / "java-limit.requests.jsonl.gz").read_bytes())
    return bench.file(log + b"[2026-11-21 03:37:41,218] WARN a line of another logger\n", "kafka-request.log")


MAKERS: Final[dict[str, Maker]] = {
    "CAPTURE_CUT": cut,
    "PACKET_LENGTH_INVALID": packet_without_end,
    "CAPTURE_UNREAD": packet_without_end,
    "CAPTURE_DESTROYED": lambda bench: bench.file(pcap([packet(FRAME)] * 9).replace(b"\n", b"\r\n")),
    "FOREIGN_BYTES": text_before,
    "BLOCK_INVALID": block_of_two_lengths,
    "INTERFACE_UNKNOWN": another_interface,
    "PACKETS_DROPPED": drops,
    "LOG_LINES_UNREADABLE": log_with_other_lines,
    "LOGGED_TIMES": log_with_other_lines,
    "PACKETS_SORTED": late_packets,
    "COMPRESSED_CUT": gzip_cut,
    "COMPRESSED_INVALID": gzip_and_more,
    "FRAME_NUMBERS_FORGOTTEN": files_in_turn,
    "CAPTURES_OVERLAP": lambda bench: [
        path
        for n in (0, 1)
        for path in bench.file(pcap(packet(FRAME, time_ns=9 * at + n) for at in range(3)), f"{n}.pcap")
    ],
    "LINK_TYPE_UNKNOWN": lambda bench: bench.frame(FRAME, NO_LINK_TYPE),
    "PACKET_TOO_SHORT": lambda bench: bench.frame(FRAME[:30]),
    "HEADER_INVALID": lambda bench: bench.frame(b"\x44" + ipv4(Segment())[1:], RAW_IP),
    "IP_FRAGMENT": lambda bench: bench.frame(ipv4(Segment(payload=bytes(4)), fragment=0x2000), RAW_IP),
    "HEADERS_LIMIT": lambda bench: bench.frame(bytes(12) + b"\x81\0\0\5" * 100 + b"\x08\0" + ipv4(Segment())),
    "ENVELOPE_UNREAD": lambda bench: bench.frame(udp(51820, b"\4\0\0\0" + bytes(60)), RAW_IP),
    "NOT_TCP": lambda bench: bench.frame(ipv4(Segment(), protocol=1), RAW_IP),
    "ENDS_FORGOTTEN": many_pairs,
    "SNAP_LENGTH_CUT": lambda bench: bench.packets([replace(packet(FRAME[:-3]), wire_length=len(FRAME))]),
    "STREAM_GAP": bundled("tcp-var-missed.pcap"),
    "OVERLAP_DIFFERS": other_bytes_again,
    "UNACKNOWLEDGED": sent_again,
    "ACKNOWLEDGED_LATE": sent_again,
    "SYN_UNANSWERED": syn_again,
    "WINDOW_CLOSED": window_closed,
    "WINDOW_OPENED": window_closed,
    "FLOWS_FORGOTTEN": many_connections,
    "DUPLICATE_PACKETS": captured_twice,
    "TIME_DISORDER": later_than_the_limit,
    "CLOCK_STEP": times_that_run_backwards,
    "CLOCK_STOPPED": lambda bench: bench.packets(replace(packet(FRAME), time_ns=0) for _ in range(3)),
    "SILENCE_UNPROVED": bundled("tcp-var-base.pcap"),
    "SILENCE_PROVED": bundled("share-restart.pcap"),
    "ACKED_UNSEEN": answers_stamped_late,
    "PROXY_HEADER_INVALID": lambda bench: bench.sent(b"PROXY TCP4 here there 1 2\r\n"),
    "PROXY_HEADER_REFUSED": lambda bench: bench.sent(b"PROXY UNKNOWN\r\n"),
    "TLS_ALERT": alert_in_clear,
    "TLS_UNREAD": hello_without_keys,
    "NOT_KAFKA": bundled("tcp-hostile.pcap"),
    "FOREIGN_PROTOCOL": bundled("tcp-hostile.pcap"),
    "FRAME_LENGTH_INVALID": bundled("tcp-hostile.pcap"),
    "FRAME_TRUNCATED_AT_CLOSE": bundled("tcp-hostile.pcap"),
    "REQUEST_TOO_LONG": too_long,
    "UNFINISHED_LIMIT": long_first_request,
    "BODY_NOT_KEPT": long_answer,
    "BYTES_SKIPPED": bundled("tcp-hostile.pcap"),
    "BODY_CUT": answer_cut,
    "RESYNC": bundled("tcp-hostile.pcap"),
    "RESPONSE_UNMATCHED": bundled("tcp-var-missed.pcap"),
    "RESPONSE_OUT_OF_ORDER": answers_in_another_order,
    "REQUEST_UNANSWERED": bundled("security-sasl.pcap"),
    "REQUEST_TIMEOUT_CLOSE": given_up,
    "VERSION_NOT_ADVERTISED": bundled("adv-frames.pcap"),
    "ACKS0_ANSWERED": answer_to_nobody,
    "CORRELATION_ID_REUSED": bundled("tcp-hostile.pcap"),
    "IN_FLIGHT_LIMIT": many_open,
    "UNKNOWN_API": bundled("tcp-hostile.pcap"),
    "NO_DISSECTOR": nobody_reads_metadata,
    "NAMES_LIMIT": many_names,
    "VERSION_UNKNOWN": bundled("tcp-hostile.pcap"),
    "APIVERSIONS_FALLBACK": bundled("adv-frames.pcap"),
    "SOFTWARE_NAME_INVALID": bundled("adv-frames.pcap"),
    "EARLY_ACCESS_SHARE_API": bundled("adv-frames.pcap"),
    "SASL_SEQUENCE": bundled("adv-frames.pcap"),
    "RAW_TOKEN": bundled("security-sasl.pcap"),
    **{
        code: malformed(code)
        for code in (
            "TRAILING_BYTES",
            "BODY_TOO_SHORT",
            "LENGTH_INVALID",
            "NULL_NOT_ALLOWED",
            "VARINT_TOO_LONG",
            "TAG_LENGTH_MISMATCH",
            "TAGS_UNSORTED",
            "TAG_OF_OTHER_VERSION",
            "TOO_MANY_ELEMENTS",
            "NOT_UTF8",
        )
    },
    "EMBEDDED_INVALID": bundled("hostile-records.pcap"),
    "EMBEDDED_UNKNOWN": key_of_no_release,
    "EMBEDDED_LIMIT": many_structures,
    "LAYOUT_DRIFT": summary_of_4_0,
    "BATCH_CRC": bundled("hostile-records.pcap"),
    "BATCH_COUNT_MISMATCH": bundled("hostile-records.pcap"),
    "BATCH_OFFSETS": bundled("hostile-records.pcap"),
    "CODEC_INVALID": bundled("hostile-records.pcap"),
    "LEGACY_MAGIC": bundled("hostile-records.pcap"),
    "BATCH_LENGTH_INVALID": bundled("hostile-records.pcap"),
    "DECOMPRESSION_FAILED": bundled("hostile-records.pcap"),
    "DECOMPRESSION_LIMIT": bomb,
    "RECORD_INVALID": bundled("hostile-records.pcap"),
    "RECORDS_LIMIT": many_records,
    "MAGIC_UNKNOWN": bundled("hostile-records.pcap"),
}
