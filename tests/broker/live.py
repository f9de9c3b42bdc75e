"""Conversations with a real broker in the words of tests.conversation: requests go out on sockets, answers come back
from them.

talk = Live(broker.port)
a = talk.member("a")
a.share_fetch(epoch=0).answered()          # waits for the answer, and says where it is another one

One thread, no blocking: several connections, several requests outstanding on each, an end at any moment. What is sent
and received is put down as packets too, for those who may not capture."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import kshark
from kshark.model import ACK, FIN
from kshark.registry import Registry
from tests.conversation import Asked, Connection, Conversation, Member
from tests.packets import Tcp

HOST = "127.0.0.1"
#: Clients' ports, one after the other, so that none comes twice in a walk; below those that the kernel hands out.
PORTS = range(10_000, 32_000)
ANSWER_SECONDS = 40.0
_FREE = cycle(PORTS)
_REGISTRY = Registry()


def _headers(key: int, version: int) -> tuple[int, int]:
    """Header versions of request and response."""
    api = _REGISTRY.api(key)
    assert api is not None
    return api.request_header_version(version), api.response_header_version(version)


class Observer:
    """Who looks on: told of every request before it is sent, of every answer and of every end of a connection. This one
    looks away."""

    def sent(self, asked: Asked, body: Mapping[str, Any]) -> None: ...

    def answered(self, asked: Asked, body: Mapping[str, Any]) -> None: ...

    def ended(self, port: int, how: str) -> None: ...


@dataclass
class Sent(Asked):
    """A request to a real broker; `answer` is its decoded body once it is there. `lost`: the connection ended
    before."""

    connection: LiveConnection
    body: Mapping[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] | None = None
    lost: bool = False

    @property
    def error(self) -> int | None:
        """The top-level error of the answer; None without one."""
        return None if self.answer is None else int(self.answer.get("error_code", 0))

    def answered(self, error: int = 0, **_: Any) -> Sent:
        """Waits for the answer, which has to have this top-level error."""
        self.wait()
        assert self.error == int(error), (
            f"{self.api} {dict(self.body)} was answered {self.error}, expected was {int(error)}"
        )
        return self

    def wait(self, seconds: float = ANSWER_SECONDS) -> Sent:
        """Waits until it is answered or its connection has ended."""
        until = time.monotonic() + seconds
        while self.answer is None and not self.lost and time.monotonic() < until:
            self.connection.talk.poll(until - time.monotonic())
        return self


class LiveConnection(Connection):
    """A connection of a client to a real broker. Raises OSError where there can be none from that port."""

    talk: Live

    def __init__(self, talk: Live, port: int) -> None:
        self.talk, self.client_id, self.correlation_id = talk, "raw", 0
        self.port = port
        self.is_open = True
        self.outstanding: deque[Sent] = deque()
        self._received = bytearray()
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket.bind((HOST, port))
            self.socket.connect((HOST, talk.broker_port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(False)
        self.tcp = Tcp(talk.wire, f"{HOST}:{port}", f"{HOST}:{talk.broker_port}", [port * 1000, port * 3000])
        talk.now()
        self.tcp.open()

    def ask(self, key: int, api: str, version: int, body: dict[str, Any]) -> Sent:
        self.correlation_id += 1
        body = self.talk.with_real_topics(body)
        header = struct.pack(">hhih", key, version, self.correlation_id, len(self.client_id)) + self.client_id.encode()
        data = (
            header + (b"\0" if _headers(key, version)[0] == 2 else b"") + kshark.encode(key, version, "request", body)
        )
        sent = Sent(self, api, key, version, self.correlation_id, [], body=body)
        self.talk.exchanges.append(sent)
        self.talk.observer.sent(sent, body)
        self.outstanding.append(sent)
        self.talk.now()
        self.tcp.client(struct.pack(">i", len(data)) + data)
        try:
            self.socket.sendall(struct.pack(">i", len(data)) + data)  # far smaller than the socket's buffer
        except OSError:
            self._gone("by the broker")
        return sent

    def api_versions(self, release: str | None) -> Sent:
        del release  # the broker says itself what it speaks
        return self.ask(18, "ApiVersions", 3, {"client_software_name": "raw", "client_software_version": "1.0"}).wait()

    def close(self, *, how: str = "fin") -> None:
        """Ends the connection: FIN, or RST."""
        self.talk.poll(0)
        if not self.is_open:
            return
        self.talk.now()
        if how == "rst":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.tcp.reset()
        else:
            self.tcp.close()
        self._gone(how)

    def reset(self) -> None:
        self.close(how="rst")

    def receive(self) -> None:
        """Takes what has come."""
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        self.talk.now()
        if not data:
            self.tcp._send(1, FIN | ACK)
            self._gone("by the broker")
            return
        self.tcp.broker(data)
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4], "big"):
            end = 4 + int.from_bytes(self._received[:4], "big")
            frame = bytes(self._received[4:end])
            del self._received[:end]
            self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        sent = self.outstanding.popleft()
        assert int.from_bytes(frame[:4], "big") == sent.correlation_id
        start = 5 if _headers(sent.key, sent.version)[1] else 4
        answer = kshark.decode(sent.key, sent.version, "response", frame[start:])
        self.talk.observer.answered(sent, answer)
        sent.answer = answer

    def _gone(self, how: str) -> None:
        self.is_open = False
        self.talk.observer.ended(self.port, how)
        self.socket.close()
        del self.talk.connections[self.port]
        for sent in self.outstanding:
            sent.lost = True
        self.outstanding.clear()


class Live(Conversation):
    """A conversation with the broker at that port of this machine.

    `topics` are the real ids of the names that conversations use; `group` is the group of members that are not said to
    have another, so that many conversations can be had at once. `line`: 4.1, 4.2 ..."""

    def __init__(
        self, broker_port: int, observer: Observer | None = None, *, line: str = "4.3", group: str = "g"
    ) -> None:
        super().__init__(release=line)
        self.group = group
        self.broker_port = broker_port
        self.observer: Observer = observer or Observer()
        self.connections: dict[int, LiveConnection] = {}
        self.topics: dict[str, str] = {}
        self.wire.step_ns = 1_000

    def connection(self, *_: Any, introduced: bool = True, **__: Any) -> LiveConnection:
        for port in _FREE:
            try:
                connection = LiveConnection(self, port)
            except ConnectionRefusedError:
                raise
            except OSError:
                continue  # somebody has that port
            self.connections[port] = connection
            if introduced:
                connection.api_versions(None)
            return connection
        raise AssertionError("ports never end")

    def member(
        self, name: str, group: str | None = None, connection: Connection | None = None, *, joined: bool = True
    ) -> Member:
        return super().member(name, group or self.group, connection, joined=joined)

    def pause(self, seconds: float) -> None:
        """Lets that much time go by; answers are taken meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.poll(left)

    def poll(self, seconds: float) -> None:
        """Takes what has come on all connections; waits at most so long for anything."""
        known = {connection.socket.fileno(): connection for connection in self.connections.values()}
        waiting = select.poll()
        for number in known:
            waiting.register(number, select.POLLIN)
        for number, _ in waiting.poll(max(0, seconds) * 1000):
            known[number].receive()

    def now(self) -> None:
        """What is put down next happens now."""
        self.wire.time_ns = max(time.time_ns(), self.wire.time_ns)

    def with_real_topics(self, body: dict[str, Any]) -> dict[str, Any]:
        """The same request about the broker's topics, whose ids nobody knew beforehand."""
        known = {
            name: [{**row, "topic_id": self.topics.get(row["topic_id"], row["topic_id"])} for row in body[name]]
            for name in ("topics", "forgotten_topics_data")
            if any("topic_id" in row for row in body.get(name, ()))
        }
        return {**body, **known}
