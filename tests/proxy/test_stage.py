"""PROXY headers in front of conversations: split, repeated, lost, in a chain, and before TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kshark import limits
from kshark.flows import Ledger
from kshark.model import Closed, Event, Flow, Message, PacketBatch, Weird
from kshark.pipeline import Engine, Front, Options
from kshark.registry import Registry
from tests.conversation import Connection, Conversation
from tests.packets import Packet, Tcp, Wire, batch, batches
from tests.property.test_chunks import told
from tests.proxy.making import CLIENT, HEADERS, SIGNATURE, binary, ipv4, line, tlv
from tests.tls.speaking import Secrets, Speaking

PROXY = "10.0.0.5:50000"
BROKER = "10.0.0.9:9092"
REAL = f"{CLIENT}:41000"


def _talk(wire: Wire) -> Conversation:
    talk = Conversation()
    talk.wire = wire
    return talk


class Behind(Tcp):
    """A connection that begins with a header."""

    header = b""

    def open(self) -> Tcp:
        super().open()
        self.client(self.header, mss=30)
        return self


class Talk:
    """A connection of a proxy to a broker, with a request and its answer after the header."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.tcp = Tcp(self.wire, PROXY, BROKER).open()
        self.connection = Connection(_talk(self.wire), self.tcp)

    def talks(self) -> Talk:
        self.connection.api_versions("4.3")
        return self

    def ends(self) -> list[Event]:
        self.tcp.close()
        return events(self.wire.packets)


def events(packets: Iterable[Packet], **options: Any) -> list[Event]:
    engine = Engine(Options(**options))
    return [event for page in engine.pages([batch(packets)]) for event in page]


def messages(happened: Iterable[Event]) -> list[tuple[str, str, Any]]:
    return [(event.kind, event.client, event.proxy) for event in happened if isinstance(event, Message)]


def weirds(happened: Iterable[Event]) -> list[str]:
    return [event.code for event in happened if isinstance(event, Weird)]


def flow_of(happened: Iterable[Event]) -> Flow:
    return next(event.flow for event in happened if isinstance(event, Closed))


def read(client: str = REAL, proxy: str = PROXY) -> list[tuple[str, str, str]]:
    return [("request", client, proxy), ("response", client, proxy)]


@pytest.mark.parametrize("size", [1, 5, 12, 13, 16, 17, 1460])
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_in_packets_of_any_size(name: str, size: int) -> None:
    make, host = HEADERS[name]
    talk = Talk()
    talk.tcp.client(make(41_000), mss=size)
    happened = talk.talks().ends()
    client = f"{host}:41000" if host else PROXY
    assert messages(happened) == read(client)
    assert weirds(happened) == []
    assert flow_of(happened).proxied is not None


def test_the_first_request_in_the_packet_of_the_header() -> None:
    other = Talk().talks()
    request = b"".join(_payloads(other.wire.packets[3:4]))
    talk = Talk()
    talk.tcp.client(ipv4(41_000) + request)
    happened = talk.ends()
    assert messages(happened) == [("request", REAL, PROXY)]


def _payloads(packets: Iterable[Packet]) -> Iterator[bytes]:
    return (packet.data[54:] for packet in packets)


def test_a_header_sent_again() -> None:
    talk = Talk()
    header = ipv4(41_000)
    for size in (10, 20, len(header)):
        talk.tcp.client(header[:size])
        talk.tcp.seq[0] -= size
    talk.tcp.client(header)
    assert messages(talk.talks().ends()) == read()


def test_the_packets_of_a_header_in_another_order() -> None:
    talk = Talk()
    talk.tcp.client(ipv4(41_000), mss=14)
    packets = talk.talks().wire.packets
    packets[3], packets[4] = packets[4].at(packets[3].time_ns), packets[3].at(packets[4].time_ns)
    assert messages(talk.ends()) == read()


def test_a_proxy_behind_a_proxy() -> None:
    """The broker's neighbour speaks first; the last header is that of the client's neighbour."""
    talk = Talk()
    talk.tcp.client(ipv4(50_001, client="10.0.0.3") + ipv4(50_002, client="10.0.0.4"))
    talk.tcp.client(line(f"TCP4 {CLIENT} 10.0.0.4 41000 9092"))
    happened = talk.talks().ends()
    assert messages(happened) == read()
    proxied = flow_of(happened).proxied
    assert proxied is not None
    assert [header.source for header in proxied.headers] == ["10.0.0.3:50001", "10.0.0.4:50002", REAL]


def test_a_health_check_of_a_proxy_behind_a_proxy_is_that_proxys_own() -> None:
    talk = Talk()
    talk.tcp.client(ipv4(50_001, client="10.0.0.3") + binary(0, b"", 0))
    assert messages(talk.talks().ends()) == read("10.0.0.3:50001")


def test_more_headers_than_any_chain_has() -> None:
    talk = Talk()
    talk.tcp.client(ipv4(41_000) * (limits.PROXY_HEADERS + 1))
    happened = talk.talks().ends()
    proxied = flow_of(happened).proxied
    assert proxied is not None
    assert len(proxied.headers) == limits.PROXY_HEADERS
    assert accounted(talk.wire.packets)


def test_a_listener_with_and_without_headers() -> None:
    talk = Talk()
    talk.tcp.client(ipv4(41_000))
    talk.talks()
    plain = Connection(talk.connection.talk, Tcp(talk.wire, "10.0.0.1:50009", BROKER, [7, 9]).open())
    plain.api_versions("4.3")
    from_client = [message[1:] for message in messages(talk.ends()) if message[0] == "request"]
    assert sorted(from_client, key=str) == sorted([(REAL, PROXY), (plain.tcp.source, _UNSET)], key=str)


_UNSET: Any = Message.__struct_defaults__[-1]


def test_a_health_check_leaves_nothing_to_say() -> None:
    for header in (binary(0, b"", 0), ipv4(41_000)):
        for closes in (lambda tcp: tcp.close(), lambda tcp: tcp.reset(0), lambda tcp: (tcp.fin(0), tcp.reset(1))):
            talk = Talk()
            talk.tcp.client(header)
            closes(talk.tcp)
            happened = events(talk.wire.packets)
            assert weirds(happened) == []
            assert messages(happened) == []


@pytest.mark.parametrize("name", HEADERS)
def test_before_tls(name: str) -> None:
    make, host = HEADERS[name]
    secrets, wire = Secrets(), Wire()
    tcp = Behind(wire, PROXY, BROKER)
    tcp.header = make(41_000)
    tls = Speaking(tcp, secrets).open()
    connection = Connection(_talk(wire), tls)  # type: ignore[arg-type]
    connection.api_versions("4.3")
    tcp.close()
    happened = events(wire.packets, tls_keys=secrets.text)
    assert messages(happened) == read(f"{host}:41000" if host else PROXY)
    assert weirds(happened) == []
    assert accounted(wire.packets, tls_keys=secrets.text)
    unread = [event for event in events(wire.packets) if isinstance(event, Weird)]
    assert [event.code for event in unread] == ["TLS_UNREAD"]
    flow = flow_of(happened)
    assert flow.proxied is not None
    assert unread[0].size == sum(flow.stream_bytes) - flow.proxied.size


# -- what is missing


def test_a_gap_before_the_header_hides_it() -> None:
    talk = Talk()
    talk.tcp.seq[0] += 30
    talk.tcp.client(ipv4(41_000))
    happened = talk.talks().ends()
    assert flow_of(happened).proxied is None
    assert {message[1] for message in messages(happened)} == {PROXY}
    assert accounted(talk.wire.packets)


def test_a_connection_that_began_before_the_capture_may_have_anything() -> None:
    talk = Talk()
    talk.tcp.client(ipv4(41_000))
    packets = talk.talks().talks().wire.packets[3:]
    assert flow_of(events(packets)).proxied is None
    assert accounted(packets)


@pytest.mark.parametrize("lost", range(1, 5))
def test_a_gap_inside_the_header(lost: int) -> None:
    """With its addresses before the gap, the header names the client."""
    talk = Talk()
    header = ipv4(41_000, tlv(1, b"kafka" * 9) + tlv(2, b"b" * 40))
    talk.tcp.client(header, mss=28)
    talk.talks().talks().tcp.close()
    packets = talk.wire.packets
    del packets[3 + lost]
    happened = events(packets)
    assert flow_of(happened).client == REAL
    assert {message[1] for message in messages(happened)} <= {REAL}
    assert accounted(packets)


def test_a_gap_in_the_addresses_of_a_header_hides_the_client() -> None:
    for header in (ipv4(41_000), line(f"TCP4 {CLIENT} 10.0.0.9 41000 9092")):
        talk = Talk()
        talk.tcp.client(header, mss=18)
        talk.talks().talks().tcp.close()
        packets = talk.wire.packets
        del packets[4]
        flow = flow_of(events(packets))
        assert flow.proxied is not None
        assert (flow.client, flow.proxy) == (PROXY, PROXY)
        assert accounted(packets)


def test_a_cut_packet() -> None:
    """A snap length of 96 bytes: 42 of a long header are there."""
    talk = Talk()
    talk.tcp.client(ipv4(41_000, tlv(5, bytes(100))))
    talk.talks().talks()
    packets = [replace(packet, data=packet.data[:96]) for packet in talk.wire.packets]
    flow = flow_of(events(packets))
    assert flow.client == REAL
    assert accounted(packets)


# -- what is no header


@pytest.mark.parametrize(
    "data",
    [
        binary(0x11, bytes(12), version=3),
        binary(0x11, bytes(5)),
        ipv4(41_000, tlv(1, b"kafka")[:-1]),
        line("TCP4 " + "9" * 300),
        line("TCP4 one two three four"),
    ],
)  # fmt: skip
def test_a_malformed_header_is_reported_and_skipped(data: bytes) -> None:
    talk = Talk()
    talk.tcp.client(data, mss=50)
    happened = talk.talks().ends()
    assert weirds(happened) == ["PROXY_HEADER_INVALID"]
    assert messages(happened) == read(PROXY)
    assert accounted(talk.wire.packets)


@pytest.mark.parametrize("data", [b"P", b"PROX", b"PROXY", SIGNATURE[:11], b"POST / HTTP/1.1\r\n", b"PRO" + b"\0" * 40])
def test_bytes_that_begin_like_a_header(data: bytes) -> None:
    for size in (1, 3, 1460):
        talk = Talk()
        talk.tcp.client(data, mss=size)
        happened = talk.ends()
        assert flow_of(happened).proxied is None
        assert weirds(happened) == ["NOT_KAFKA"]
        assert accounted(talk.wire.packets)


def test_unfinished_headers_of_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROXY_HELD_BYTES", 1_000)
    wire = Wire()
    for number in range(30):
        tcp = Tcp(wire, f"10.0.0.5:{50_000 + number}", BROKER, [1_000 + number, 5_000]).open()
        tcp.client(binary(0x11, bytes(80), length=60_000))
    happened = events(wire.packets)
    assert 0 < weirds(happened).count("PROXY_HEADER_INVALID") < 30
    assert accounted(wire.packets)


# -- for all of them


def accounted(packets: list[Packet], **options: Any) -> bool:
    """True if the uses of all bytes add up to what the connections carried."""
    front, ledger = Front(Options(**options), Registry()), Ledger()
    timeline = [event for happened in front.batches([batch(packets)]) for event in happened]
    closed = ledger.feed(timeline)
    return bool(closed) and all(
        account.length == ended.flow.stream_bytes[side] + ended.flow.missing_bytes[side]
        for ended, accounts in closed
        for side, account in enumerate(accounts)
    )


def _split(talk: Talk) -> None:
    talk.tcp.client(ipv4(41_000, tlv(5, bytes(40))), mss=7)


def _chain(talk: Talk) -> None:
    talk.tcp.client(ipv4(50_001) + line(f"TCP4 {CLIENT} 10.0.0.4 41000 9092"), mss=11)


def _begins_alike(talk: Talk) -> None:
    talk.tcp.client(b"PRO", mss=1)
    talk.tcp.broker(b"\0\0\0\x10")


def _two_at_once(talk: Talk) -> None:
    other = Tcp(talk.wire, "10.0.0.6:50001", BROKER, [9, 99]).open()
    for size in range(0, 28, 4):
        talk.tcp.client(ipv4(41_000)[size : size + 4])
        other.client(ipv4(41_001)[size : size + 4])
    Connection(talk.connection.talk, other).api_versions("4.3")


def _refused(talk: Talk) -> None:
    talk.tcp.client(ipv4(41_000))
    talk.tcp.reset(1)
    talk.tcp = talk.connection.tcp = Tcp(talk.wire, "10.0.0.5:50077", BROKER, [7, 8]).open()


@pytest.mark.parametrize("begin", [_split, _chain, _begins_alike, _two_at_once, _refused])
@pytest.mark.parametrize("lost", [None, 4, 5, 6, 7])
def test_batches_of_any_size_give_the_same(begin: Callable[[Talk], None], lost: int | None) -> None:
    talk = Talk()
    begin(talk)
    talk.talks().talks().tcp.close()
    packets = [packet for number, packet in enumerate(talk.wire.packets) if number != lost]
    dice = Random(repr((begin.__name__, lost)))
    whole = lines([batch(packets)])
    for _ in range(4):
        assert lines(batches(packets, [dice.randint(1, 4) for _ in packets])) == whole
    assert lines(batches(packets, [1] * len(packets))) == whole


def lines(items: Iterable[PacketBatch]) -> list[Any]:
    engine = Engine(Options())
    return [told(event) for page in engine.pages(items) for event in page]


def test_any_bytes_after_the_beginning_of_a_header_are_accounted_for() -> None:
    dice = Random(7)
    for _ in range(150):
        talk = Talk()
        header = bytearray(dice.choice([make for make, _ in HEADERS.values()])(41_000))
        for _ in range(dice.randint(0, 3)):
            header[dice.randrange(len(header))] = dice.randrange(256)
        talk.tcp.client(bytes(header[: dice.randint(1, len(header))]), mss=dice.randint(1, 40))
        if dice.random() < 0.7:
            talk.talks()
        if dice.random() < 0.5:
            talk.tcp.close()
        packets = [packet for packet in talk.wire.packets if dice.random() > 0.05]
        assert accounted(packets), header.hex()
        events(packets)
