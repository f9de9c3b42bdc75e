"""Protocols that are not Kafka, as their documents write them: none is taken for it, from their beginning or begun in
the middle."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from kshark.model import Closed
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from tests.exchange.test_stage import answer, framed, metadata
from tests.packets import Tcp, Wire, batch


class Spoken(NamedTuple):
    """What the client says first, what the server answers, and what both say again and again."""

    hello: bytes
    welcome: bytes
    ask: bytes
    reply: bytes


def _http2(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113, section 4.1."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _tagged(tag: bytes, body: bytes) -> bytes:
    """A PostgreSQL message: a letter, its length with itself."""
    return tag + struct.pack(">I", len(body) + 4) + body


def _mysql(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def _mongo(number: int, to: int, body: bytes) -> bytes:
    """OP_MSG with one section."""
    document = struct.pack("<i", len(body) + 5) + body + b"\0"
    return struct.pack("<iiii", 21 + len(document), number, to, 2013) + bytes(5) + document


def _amqp(kind: int, channel: int, payload: bytes) -> bytes:
    """AMQP 0-9-1, section 2.3.5."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def _cassandra(direction: int, stream: int, opcode: int, body: bytes) -> bytes:
    return struct.pack(">BBhBi", direction | 4, 0, stream, opcode, len(body)) + body


def _pulsar(kind: int, body: bytes) -> bytes:
    command = b"\x08" + bytes([kind]) + body
    return struct.pack(">II", len(command) + 4, len(command)) + command


def _dns(number: int, flags: int) -> bytes:
    """Over TCP: RFC 1035, section 4.2.2."""
    question = b"\x07example\x03com\0\0\x01\0\x01"
    body = struct.pack(">HHHHHH", number, flags, 1, 0, 0, 0) + question
    return struct.pack(">H", len(body)) + body


_GRPC_BODY = b"\0" + struct.pack(">I", 7) + b"\x0a\x05world"
_THRIFT_CALL = framed(struct.pack(">HHI", 0x8001, 1, 4) + b"ping" + struct.pack(">i", 7) + b"\0")
_THRIFT_REPLY = framed(struct.pack(">HHI", 0x8001, 2, 4) + b"ping" + struct.pack(">i", 7) + b"\0")
_RANDOM = Random(1)

#: From the protocols' documents: RFCs, and the vendors' descriptions of their wire formats.
PROTOCOLS = {
    "HTTP/1.1": Spoken(
        b"", b"", b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    ),
    "HTTP/2": Spoken(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _http2(4, 0, 0, b""),
        _http2(4, 0, 0, b"\0\3\0\0\0\x64"),
        _http2(1, 5, 1, b"\x82\x86\x84\x41\x01x"),
        _http2(1, 4, 1, b"\x88") + _http2(0, 1, 1, b"ok"),
    ),
    "gRPC": Spoken(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _http2(4, 0, 0, b""),
        _http2(4, 1, 0, b""),
        _http2(1, 4, 1, b"\x83\x86\x45\x03/a/") + _http2(0, 1, 1, _GRPC_BODY),
        _http2(1, 4, 1, b"\x88") + _http2(0, 0, 1, _GRPC_BODY),
    ),
    "TLS": Spoken(
        b"\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x03" + bytes(range(32)) + b"\0\0\2\x13\x01\1\0\0\0",
        b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x03",
        b"\x17\x03\x03\x00\x20" + bytes(range(100, 132)),
        b"\x17\x03\x03\x00\x20" + bytes(range(200, 232)),
    ),
    "PostgreSQL": Spoken(
        framed(b"")[:3] + b"\x11" + struct.pack(">I", 196_608) + b"user\0me\0\0\0"[:9],
        _tagged(b"R", bytes(4)) + _tagged(b"Z", b"I"),
        _tagged(b"Q", b"select 1\0"),
        _tagged(b"T", b"\0\1a\0" + bytes(18))
        + _tagged(b"D", b"\0\1\0\0\0\x011")
        + _tagged(b"C", b"SELECT 1\0")
        + _tagged(b"Z", b"I"),
    ),
    "Redis": Spoken(b"", b"", b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"$2\r\nok\r\n"),
    "MQTT": Spoken(b"\x10\x0d\0\4MQTT\4\2\0\x3c\0\1a", b"\x20\2\0\0", b"\x30\x08\0\3a/bhey", b"\x40\2\0\1"),
    "AMQP": Spoken(
        b"AMQP\0\0\x09\x01",
        _amqp(1, 0, b"\0\x0a\0\x0a\0\x09" + bytes(12)),
        _amqp(1, 1, b"\0\x3c\0\x28\0\0\0\1q\0") + _amqp(3, 1, b"hello"),
        _amqp(1, 1, b"\0\x3c\0\x50" + bytes(9)),
    ),
    "MySQL": Spoken(
        b"",
        _mysql(0, b"\x0a8.0.36\0" + bytes(40)),
        _mysql(0, b"\x03select 1"),
        _mysql(1, b"\1") + _mysql(2, b"\3def" + bytes(20)) + _mysql(3, b"\x011") + _mysql(4, b"\xfe\0\0\2\0"),
    ),
    "MongoDB": Spoken(b"", b"", _mongo(7, 0, b"\x10hello\0\1\0\0\0"), _mongo(8, 7, b"\x01ok\0" + bytes(8))),
    "Cassandra": Spoken(
        _cassandra(0, 0, 1, b"\0\1\0\x0bCQL_VERSION\0\x053.0.0"),
        _cassandra(0x80, 0, 2, b""),
        _cassandra(0, 1, 7, struct.pack(">I", 8) + b"select 1" + b"\0\1\0"),
        _cassandra(0x80, 1, 8, b"\0\0\0\1"),
    ),
    "NATS": Spoken(b"", b'INFO {"server_id":"a"}\r\n', b"PUB a.b 5\r\nhello\r\n", b"MSG a.b 1 5\r\nhello\r\n"),
    "Pulsar": Spoken(
        _pulsar(2, b"\x12\x05\x0a\x033.0\x20\x15"), _pulsar(3, b"\x1a\x03\x0a\x013"), _pulsar(18, b""), _pulsar(19, b"")
    ),
    "LDAP": Spoken(b"", b"", b"\x30\x0c\2\1\1\x60\7\2\1\3\4\0\x80\0", b"\x30\x0c\2\1\1\x61\7\x0a\1\0\4\0\4\0"),
    "Thrift": Spoken(b"", b"", _THRIFT_CALL, _THRIFT_REPLY),
    "DNS": Spoken(b"", b"", _dns(7, 0x0100), _dns(7, 0x8180)),
    "ZooKeeper": Spoken(
        framed(struct.pack(">iqiqi16s?", 0, 0, 18_000, 0, 16, bytes(16), False)),
        framed(struct.pack(">iiqi16s?", 0, 18_000, 77, 16, bytes(16), False)),
        framed(struct.pack(">iii", 1, 4, 2) + b"/a\0"),
        framed(struct.pack(">iqi", 1, 300, 0) + struct.pack(">i", 1) + b"x" + bytes(68)),
    ),
    "SSH": Spoken(
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        framed(b"\4\x14" + bytes(range(40))),
        framed(b"\4\x14" + bytes(range(60))),
    ),
    "SMTP": Spoken(b"", b"220 mail ESMTP\r\n", b"MAIL FROM:<a@b>\r\n", b"250 2.1.0 Ok\r\n"),
    "random": Spoken(*(_RANDOM.randbytes(n) for n in (50, 70, 900, 1300))),
}


REGISTRY = Registry()


def services(wire: Wire, options: Options | None = None) -> list[str]:
    pages = Engine(options, REGISTRY).pages([batch(wire.packets)])
    return [event.flow.service for page in pages for event in page if isinstance(event, Closed)]


def say(tcp: Tcp, spoken: Spoken, *, middle: bool) -> None:
    for client, data in () if middle else ((True, spoken.hello), (False, spoken.welcome)):
        if data:
            (tcp.client if client else tcp.broker)(data)
    for _ in range(8):
        tcp.client(spoken.ask)
        tcp.broker(spoken.reply)


@pytest.mark.parametrize("middle", [False, True], ids=["begun", "middle"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_other_protocol_is_taken_for_kafka(protocol: str, middle: bool) -> None:
    wire = Wire()
    tcp = Tcp(wire)
    say(tcp if middle else tcp.open(), PROTOCOLS[protocol], middle=middle)
    tcp.close()
    assert "kafka" not in services(wire)


def test_a_port_said_to_be_kafkas_where_both_sides_speak_something_else_is_not() -> None:
    """Nobody is accused of frames that are none. What one side alone sends there is read as Kafka: whoever answers it
    can tell."""
    http, declared = PROTOCOLS["HTTP/1.1"], Options(kafka_ports=frozenset([9092]))
    wire = Wire()
    tcp = Tcp(wire).open()
    say(tcp, http, middle=False)
    tcp.close()
    assert services(wire, declared) == ["http"]

    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(http.ask)
    tcp.broker(answer(1))
    tcp.close()
    assert services(wire, declared) == ["kafka"]


# -- Kafka's header over other bodies


def _alike(random: Random, apis: list[tuple[int, int]], tcp: Tcp) -> None:
    """A protocol of one's own with the layout of Kafka's headers; its bodies are bytes of any kind, many of them
    zeros."""

    def body() -> bytes:
        size = random.randrange(60)
        return random.choice([random.randbytes(size), bytes(size), bytes(random.choices(b"\0\0\0\1\2abc", k=size))])

    client_id = random.choice([b"\xff\xff", b"\0\0", b"\0\3abc", b"\0\5svc-1"])
    used = random.sample(apis, random.choice((1, 1, 8)))
    echoes = random.random() < 0.8
    for number in range(1, random.randrange(2, 12)):
        tcp.client(framed(struct.pack(">hhi", *random.choice(used), number) + client_id + body()))
        if random.random() < 0.7:
            tcp.broker(framed((struct.pack(">i", number) if echoes else random.randbytes(4)) + body()))


def _taken(seeds: range) -> Iterator[int]:
    """The seeds whose stream is taken for Kafka."""
    versions = [(key, version) for key in range(100) for version in range(20)]
    known = [each for each in versions if REGISTRY.knows(*each)]
    for seed in seeds:
        random = Random(seed)
        wire = Wire()
        tcp = Tcp(wire)
        _alike(random, random.choice([known, versions]), tcp.open() if seed % 2 else tcp)
        if "kafka" in services(wire):
            yield seed


def test_of_streams_with_kafkas_headers_over_other_bodies_hardly_any_is_taken() -> None:
    assert len([*_taken(range(150))]) <= 2


@pytest.mark.slow
def test_of_1500_streams_with_kafkas_headers_over_other_bodies_less_than_one_in_a_hundred_is_taken() -> None:
    assert len([*_taken(range(10_000, 11_500))]) < 15


def test_a_servers_other_connections_do_not_follow_from_one() -> None:
    """Home-made, with Kafka's headers: what one connection is taken for counts for none whose own bytes say
    otherwise."""
    wire = Wire()
    first = Tcp(wire).open()
    first.client(metadata(1))
    first.broker(answer(1))
    for port in range(50_001, 50_011):
        tcp = Tcp(wire, f"10.0.0.1:{port}", first.target, [port * 100, port * 300]).open()
        for number in range(1, 4):
            tcp.client(framed(struct.pack(">hhi", 3, 9, number) + b"\0\3abc" + b"\x7fhome-made"))
            tcp.broker(framed(struct.pack(">i", number) + b"made at home, too"))
        tcp.close()
    assert Counter(services(wire)) == {"kafka": 1, "unknown": 10}
