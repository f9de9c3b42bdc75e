"""What Python's ssl does not do: TLS 1.3 by hand, with KeyUpdates, padding, 0-RTT data, and keys of which some are
missing."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest

from kshark import limits
from kshark.model import Closed, Event, Message, Weird
from kshark.pipeline import Engine, Options
from kshark.tls.schedule import next_secret, traffic_keys
from kshark.tls.suites import SUITES_13
from tests.conversation import registry
from tests.packets import Tcp, Wire, batch, batches

SUITE = SUITES_13[0x1303]
RANDOM = bytes(range(32))
ALERT, HANDSHAKE, DATA = 21, 22, 23
FINISHED = b"\x14\x00\x00\x20" + bytes(32)
KEY_UPDATE = b"\x18\x00\x00\x01\x00"
END_OF_EARLY_DATA = b"\x05\x00\x00\x00"


def secret(name: str) -> bytes:
    return sha256(name.encode()).digest()


LABELS = {
    "early": "CLIENT_EARLY_TRAFFIC_SECRET",
    "client handshake": "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "server handshake": "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "client": "CLIENT_TRAFFIC_SECRET_0",
    "server": "SERVER_TRAFFIC_SECRET_0",
}


def key_log(*names: str) -> bytes:
    return "".join(f"{LABELS[name]} {RANDOM.hex()} {secret(name).hex()}\n" for name in names).encode()


def record(kind: int, body: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, len(body)) + body


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


def extension(kind: int, body: bytes) -> bytes:
    return struct.pack(">HH", kind, len(body)) + body


def client_hello(*extensions: bytes) -> bytes:
    known = b"".join(extensions)
    body = b"\x03\x03" + RANDOM + b"\0" + b"\0\2\x13\x03" + b"\1\0" + struct.pack(">H", len(known)) + known
    return record(HANDSHAKE, message(1, body))


def server_hello(suite: int = 0x1303) -> bytes:
    known = extension(43, b"\x03\x04")
    body = b"\x03\x03" + bytes(32) + b"\0" + struct.pack(">HB", suite, 0) + struct.pack(">H", len(known)) + known
    return record(HANDSHAKE, message(2, body))


@dataclass
class Sealer:
    """Seals one side's records with one key after the other (RFC 8446, section 5.2)."""

    secret: bytes
    number: int = 0

    def seal(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        keys = traffic_keys(SUITE, self.secret)
        inner = content + bytes((kind,)) + bytes(padding)
        header = struct.pack(">BHH", DATA, 0x0303, len(inner) + 16)
        nonce = (int.from_bytes(keys.iv, "big") ^ self.number).to_bytes(12, "big")
        self.number += 1
        return header + ChaCha20Poly1305(keys.key).encrypt(nonce, inner, header)

    def update(self) -> bytes:
        """The KeyUpdate, after which the next key is used."""
        told = self.seal(HANDSHAKE, KEY_UPDATE)
        self.secret, self.number = next_secret(SUITE, self.secret), 0
        return told


@dataclass
class ByHand:
    """A connection whose handshake is done, but for what a test does before."""

    wire: Wire = field(default_factory=Wire)
    early: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        self.tcp = Tcp(self.wire).open()
        self.tcp.client(client_hello(*((extension(42, b""),) if self.early else ())))
        for each in self.early:
            self.tcp.client(each)
        self.tcp.broker(server_hello() + Sealer(secret("server handshake")).seal(HANDSHAKE, FINISHED))
        self.tcp.client(record(20, b"\1") + Sealer(secret("client handshake")).seal(HANDSHAKE, FINISHED))
        self.client, self.server = Sealer(secret("client")), Sealer(secret("server"))

    def exchange(self, correlation_id: int, *, padding: int = 0) -> None:
        """ListTransactions, whose bodies hold little, and its answer."""
        self.tcp.client(self.client.seal(DATA, request(correlation_id), padding))
        self.tcp.broker(self.server.seal(DATA, answer(correlation_id), padding))

    def read(self, keys: bytes) -> tuple[list[int], list[str]]:
        found: list[Event] = [
            event
            for page in Engine(Options(tls_keys=keys), registry()).pages([batch(self.wire.packets)])
            for event in page
        ]
        asked = [
            it.correlation_id
            for it in found
            if isinstance(it, Message) and it.kind == "request" and isinstance(it.correlation_id, int)
        ]
        assert all(isinstance(it, Closed) is False or it.flow.tls is not None for it in found)
        return asked, [it.detail.partition(":")[0] for it in found if isinstance(it, Weird) and it.code == "TLS_UNREAD"]


def request(correlation_id: int) -> bytes:
    body = struct.pack(">hhih", 3, 1, correlation_id, 1) + b"c" + struct.pack(">i", -1)
    return struct.pack(">i", len(body)) + body


def answer(correlation_id: int) -> bytes:
    body = struct.pack(">i", correlation_id) + bytes(4) + struct.pack(">i", 1) + bytes(4)
    return struct.pack(">i", len(body)) + body


ALL = tuple(name for name in LABELS if name != "early")


def test_keys_are_updated_by_each_side_as_it_likes() -> None:
    talk = ByHand()
    for number in range(6):
        talk.exchange(number, padding=number * 10)
        talk.tcp.client(talk.client.update())
        if number % 2:
            talk.tcp.broker(talk.server.update())
    talk.tcp.broker(talk.server.seal(HANDSHAKE, message(4, bytes(60))) + talk.server.seal(ALERT, b"\1\0"))
    talk.tcp.close()
    assert talk.read(key_log(*ALL)) == ([0, 1, 2, 3, 4, 5], [])


@pytest.mark.parametrize("missing", ALL)
def test_a_connection_some_of_whose_secrets_are_missing_is_not_read(missing: str) -> None:
    talk = ByHand()
    talk.exchange(1)
    assert talk.read(key_log(*(name for name in ALL if name != missing))) == ([], ["no keys for it"])


def test_early_data_are_read_with_their_secret() -> None:
    early = Sealer(secret("early"))
    talk = ByHand(
        early=(early.seal(DATA, request(1)), early.seal(DATA, request(2)), early.seal(HANDSHAKE, END_OF_EARLY_DATA))
    )
    talk.tcp.broker(talk.server.seal(DATA, answer(1) + answer(2)))
    talk.exchange(3)
    assert talk.read(key_log(*LABELS)) == ([1, 2, 3], [])


def test_early_data_without_their_secret_are_named() -> None:
    early = Sealer(secret("early"))
    talk = ByHand(early=(early.seal(DATA, request(1)), early.seal(HANDSHAKE, END_OF_EARLY_DATA)))
    for number in range(2, 9):
        talk.exchange(number)
    asked, why = talk.read(key_log(*ALL))
    assert asked == [2, 3, 4, 5, 6, 7, 8]
    assert why == ["0-RTT data without a key that fits"]


def test_early_data_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TLS_EARLY_RECORDS", 3)
    monkeypatch.setattr(limits, "TLS_TRIES", 200)
    early = Sealer(secret("another"))
    talk = ByHand(early=tuple(early.seal(DATA, bytes(100)) for _ in range(9)))
    asked, (why,) = talk.read(key_log(*ALL))
    assert asked == []
    assert why in ("no record was found again after a gap", "0-RTT data without a key that fits")


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (server_hello(0x1399), "cipher suite 0x1399 is not decrypted"),
        (record(HANDSHAKE, message(2, b"\x03\x01" + bytes(32) + b"\0\0\x2f\0")), "TLS 1.0 is not decrypted"),
        (record(HANDSHAKE, message(2, b"\x03\x03" + bytes(32) + b"\0\0\x9c\1")), "compression is not undone"),
        (record(HANDSHAKE, message(2, b"\x03\x03" + bytes(9))), "its ServerHello cannot be read"),
        (record(HANDSHAKE, message(11, bytes(9))), "its handshake cannot be read"),
        (b"HTTP/1.1 400", "bytes that are no TLS records"),
    ],
)
def test_a_server_that_answers_something_else_is_named(hello: bytes, why: str) -> None:
    talk: Any = ByHand.__new__(ByHand)
    talk.wire = Wire()
    tcp = Tcp(talk.wire).open()
    tcp.client(client_hello())
    tcp.broker(hello)
    tcp.broker(bytes(100))
    tcp.close()
    assert talk.read(key_log(*ALL)) == ([], [why])


@pytest.mark.parametrize(
    "begins", [b"\3\1\0", b"\x16", b"\x16\3\1\0\0\x99\7"], ids=["not TLS", "too short to tell", "no hello"]
)
def test_what_comes_first_tells_however_many_packets_come_at_once(begins: bytes) -> None:
    """A ServerHello behind a client's bytes that are not TLS makes none of them."""
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(begins)
    tcp.broker(server_hello())
    tcp.client(client_hello())
    tcp.close()

    def told(size: int) -> list[tuple[str, str]]:
        parts = batches(wire.packets, [size] * len(wire.packets))
        events = [event for page in Engine(None, registry()).pages(parts) for event in page]
        services = [event.flow.service for event in events if isinstance(event, Closed)]
        return [
            *((event.code, event.detail) for event in events if isinstance(event, Weird)),
            *(("", service) for service in services),
        ]

    assert told(1) == told(2) == told(len(wire.packets))
