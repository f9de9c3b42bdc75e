"""A client that sends what it is given: without retries, back-off or throttling of its own."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import kshark
from kshark.records import Record
from kshark.records.writer import write_batch
from kshark.registry import Registry
from tests.trouble.events.network import connect

NAME: Final = "raw"
_REGISTRY: Final = Registry()


class Raw:
    """A connection of a host to a broker. Raises OSError where there is none, EOFError where the broker closes it."""

    def __init__(self, host: int, broker: tuple[str, int], name: str = NAME, *, receive_buffer: int = 0) -> None:
        self.socket = connect(host, broker, receive_buffer=receive_buffer)
        self.socket.settimeout(60)
        self.client = f"{self.socket.getsockname()[0]}:{self.socket.getsockname()[1]}"
        self._name, self._correlation_id = name, 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api: str, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer."""
        self.send(api, version, body)
        return self.answer(api, version)

    def send(self, api: str, version: int, body: Mapping[str, Any]) -> None:
        key = _REGISTRY.find(api)
        assert key is not None
        self.send_bytes(key, version, kshark.encode(key, version, "request", body), self._header(key, version)[0] == 2)

    def send_bytes(self, key: int, version: int, body: bytes, flexible: bool) -> None:
        """Send a request whose body need not be one."""
        self._correlation_id += 1
        header = struct.pack(">hhih", key, version, self._correlation_id, len(self._name)) + self._name.encode()
        data = header + (b"\0" if flexible else b"") + body
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def answer(self, api: str, version: int) -> dict[str, Any]:
        key = _REGISTRY.find(api)
        assert key is not None
        (length,) = struct.unpack(">i", self._read(4))
        data = self._read(length)
        return kshark.decode(key, version, "response", data[5 if self._header(key, version)[1] == 1 else 4 :])

    @staticmethod
    def _header(key: int, version: int) -> tuple[int, int]:
        """Return the header versions of request and response."""
        api = _REGISTRY.api(key)
        assert api is not None
        return api.request_header_version(version), api.response_header_version(version)

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise EOFError("closed by the broker")
            data += piece
        return bytes(data)


def sasl(connection: Raw, user: str, password: str) -> dict[str, Any]:
    """Say who the client is (SASL PLAIN); return the answer of SaslAuthenticate."""
    connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
    return connection.ask("SaslAuthenticate", 2, {"auth_bytes": f"\0{user}\0{password}".encode()})


def produce(topic: str, partition: int, size: int, *, acks: int = 1, now_ms: int) -> dict[str, Any]:
    """Return the body of a Produce request with a record of so many bytes."""
    batch = write_batch([Record(0, now_ms, None, bytes(size), ())])
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 5000, "topic_data": data}
