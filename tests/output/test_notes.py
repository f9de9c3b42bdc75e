"""What was odd about a capture, in one short block."""

from __future__ import annotations

from kshark.model import Closed, Ends, Flow, Weird
from kshark.output.notes import Notes
from kshark.output.spans import plain
from tests.output.messages import request, unreadable


def closed(flow: int, service: str, size: int) -> Closed:
    return Closed(Flow(flow, Ends("a:1", "b:2"), 1, 1, service=service, stream_bytes=[size, 0]), 9, 9, "fin")  # type: ignore[arg-type]


def told(*events: object) -> list[str]:
    notes = Notes()
    notes.add(events)  # type: ignore[arg-type]
    return [plain(line) for line in notes.lines()]


def test_a_whole_capture_of_kafka_alone_needs_no_notes() -> None:
    assert told(request("Metadata", 12), closed(0, "kafka", 100)) == []


def test_a_capture_without_kafka_says_what_it_holds() -> None:
    assert told(closed(0, "tls", 5_000), closed(1, "http", 20), closed(2, "tls", 1_000)) == [
        "no Kafka messages: 1 connection http (20 B), 2 connections tls (6.00 kB)"
    ]
    assert told() == ["no Kafka messages: no TCP connections"]


def test_connections_without_a_message_are_connections() -> None:
    assert told(closed(0, "unknown", 0), closed(1, "unknown", 0)) == ["no Kafka messages: 2 connections without data"]
    held = "1 connection kafka (90 B), 1 connection without data"
    assert told(closed(0, "kafka", 90), closed(1, "unknown", 0)) == [f"no Kafka messages: {held}"]


def unread(kind: str, times: int, code: str = "ENVELOPE_UNREAD") -> Weird:
    return Weird(code, "link", 9, 1, kind, size=10 * times, times=times)


def test_a_capture_without_kafka_says_what_it_did_not_read() -> None:
    assert told(
        unread("UDP: WireGuard", 210), unread("ARP", 3, "NOT_TCP"), unread("link type 147", 1, "LINK_TYPE_UNKNOWN")
    )[0] == ("no Kafka messages: 210 UDP packets: WireGuard, 1 packet: link type 147, 3 packets: ARP, not read")
    assert told(unread("UDP", 1, "NOT_TCP")) == ["no Kafka messages: 1 packet: UDP, not read"]
    assert told(closed(1, "http", 20), unread("UDP", 9, "NOT_TCP"), unread("IP: ESP", 1_000))[0] == (
        "no Kafka messages: 1 connection http (20 B), 1,000 IP packets: ESP, not read"
    )


def test_headers_that_contradict_themselves_may_have_been_connections() -> None:
    assert told(Weird("HEADER_INVALID", "link", 4, 1))[0] == "no Kafka messages: no TCP connections that can be read"


def test_beside_kafka_only_what_may_hold_more_of_it_is_told() -> None:
    assert told(request("Metadata", 12), unread("UDP: WireGuard", 210), unread("UDP", 40, "NOT_TCP")) == [
        "ENVELOPE_UNREAD ×210, 2.10 kB  Packets of an unsupported tunnel or layer: connections may be inside. "
        "210 UDP packets: WireGuard"
    ]


def test_of_many_kinds_the_rest_is_one_number() -> None:
    [line, _] = told(*(unread(f"IP: protocol {number}", 300 - number) for number in range(200, 212)))
    assert line.count("IP packets") == 8
    assert line.endswith("93 IP packets: protocol 207, 362 other packets, not read")


def test_weirds_are_counted_with_their_bytes_the_worst_first() -> None:
    assert told(
        request("Metadata", 12),
        Weird("NOT_KAFKA", "framing", 3, 1, size=20),
        Weird("STREAM_GAP", "reassembly", 17, 1, "1448 bytes of the broker", size=1448),
        Weird("STREAM_GAP", "reassembly", 19, 1, size=52),
        Weird("FRAME_LENGTH_INVALID", "framing", 4, 1, "-1"),
    ) == [
        "FRAME_LENGTH_INVALID ×1  A length prefix is negative, or longer than usual and no header follows it. First: "
        "packet 4: -1",
        "STREAM_GAP ×2, 1.50 kB  Bytes of a connection that are missing in the capture. First: packet 17: 1448 bytes "
        "of the broker",
        "NOT_KAFKA ×1, 20 B  A connection carries another protocol; its bytes were counted and skipped. First: packet "
        "3",
    ]


def test_one_that_stands_for_many_counts_as_many() -> None:
    assert told(
        request("Metadata", 12), Weird("DUPLICATE_PACKETS", "reassembly", 90, 1, "2 connections", size=4_500, times=40)
    ) == [
        "DUPLICATE_PACKETS ×40, 4.50 kB  Connections that were captured twice: the repeated packets were "
        "left out. First: packet 90: 2 connections"
    ]


def test_codes_of_messages_count_too() -> None:
    assert told(unreadable(), unreadable()) == [
        "BODY_TOO_SHORT ×2, 60 B  The frame ends before the body does. First: packet 7"
    ]


def test_weirds_of_nearly_every_capture_share_one_line() -> None:
    resync, gap = Weird("RESYNC", "framing", 3, 1, "", times=30), Weird("BYTES_SKIPPED", "framing", 9, 1, "", size=7)
    lines = told(request("Metadata", 12), resync, gap, Weird("APIVERSIONS_FALLBACK", "exchange", 4, 1, ""))
    assert [line.split("  ")[0] for line in lines] == [
        "BYTES_SKIPPED ×1, 7 B",
        "ordinary: RESYNC ×30, APIVERSIONS_FALLBACK ×1 (kshark explain RESYNC)",
    ]
