"""The data that stages pass to each other, in flow order. Times are the packets', as integer nanoseconds since 1970.

Events have no subclasses, so `type(event) is Gap` is enough: isinstance takes four times as long to reject a struct.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, final

import msgspec
from msgspec import UNSET, Struct, UnsetType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kshark.transport import Transport

    Int64s = NDArray[np.int64]
    UInt8s = NDArray[np.uint8]

#: Link types of rows that are no packets but the request or the response of a line of a broker's request log
#: (kshark.capture.request_log); pcap has no negative ones. In this order at equal times.
#: LOGGED_RESTART is no message: its bytes are the address of a broker that restarted. LOGGED_AFTER_GAP is a request
#: before which lines of its client are missing.
LOGGED_RESTART: Final = -4
LOGGED_AFTER_GAP: Final = -3
LOGGED_REQUEST: Final = -2
LOGGED_RESPONSE: Final = -1

Side = Literal[0, 1]
Kind = Literal["request", "response", "unknown"]
Service = Literal["unknown", "kafka", "tls", "http", "other"]
Outcome = Literal["answered", "body_cut", "unanswered", "one_way", "orphan"]


@dataclass(slots=True)
class PacketBatch:
    """Packets as columns over one buffer, in the order of the capture.

    `number` counts from 1 over the whole capture. `link_type` is a LINKTYPE_ value (tcpdump.org/linktypes). `offset`
    and `length` are the captured bytes in `buffer`, `wire_length` is the packet's length before the snap length cut it.
    """

    buffer: bytes
    number: Int64s
    time_ns: Int64s
    link_type: Int64s
    offset: Int64s
    length: Int64s
    wire_length: Int64s
    #: Lines of a TLS key log that stand in the capture itself before these packets.
    secrets: bytes = field(default=b"", repr=False)
    #: Numbers of the packets in their file, if they were sorted by time; None: the same as `number`.
    frame: Int64s | None = None
    #: Where the packets come from (kshark.capture.origins); None unless it is asked for.
    origin: Int64s | None = None


def is_logged(batch: PacketBatch) -> bool:
    """True if the rows are of a request log; those of packets never stand in the same batch."""
    return len(batch.link_type) > 0 and int(batch.link_type[0]) < 0


class Ends(NamedTuple):
    """Both ends of a connection (kshark.endpoints); ends[0] sent the first packet seen."""

    first: str
    second: str


class EndsOf(Protocol):
    """Returns the ends of a pair by the number that kshark.link gave it."""

    def __getitem__(self, pair: int, /) -> Ends: ...


class Lost(NamedTuple):
    """Packets for which the kernel had no room: the times of the packets before and after them, and their number."""

    since_ns: int
    until_ns: int
    packets: int


class Tick(Struct, frozen=True):
    """The time of a running capture: all packets up to then were captured, and went before it.

    In the time line: all events of these packets went before it, too.
    """

    time_ns: int


class Moment(Struct, frozen=True, order=True):
    """A position in the capture: a packet, and the greatest time of all packets up to it.

    `last_ns` is the time of that packet, None if it is the greatest one.
    """

    packet: int
    clock_ns: int
    last_ns: int | None = None

    @classmethod
    def at(cls, packet: int, clock_ns: int, last_ns: int) -> Moment:
        """Return the moment of a packet with its own time."""
        return cls(packet, clock_ns, None if last_ns == clock_ns else last_ns)

    @property
    def time_ns(self) -> int:
        """Time of the packet."""
        return self.clock_ns if self.last_ns is None else self.last_ns


#: Before the first packet.
BEGIN: Final = Moment(0, 0)
#: In columns of `knows` (Message.knows): the capture does not show which packet that is.
UNKNOWN_PACKET: Final = -1


class Segments(msgspec.Struct):
    """TCP segments as columns, in the order of the capture.

    `clock_ns` is the greatest time of all packets up to each, since times may run backwards. `path` numbers the
    directed four-tuple: path >> 1 is the connection's pair of ends (an index into `ends`), path & 1 the side that sent
    (0: ends.first). `seq` and `ack` are the header's 32 bits, `offset` and `length` the payload in `buffer`, `missing`
    the payload bytes that the snap length cut off, `window` the receive window of the header, None if not needed.
    """

    buffer: bytes
    ends: EndsOf
    packet: Int64s
    time_ns: Int64s
    clock_ns: Int64s
    path: Int64s
    seq: Int64s
    ack: Int64s
    flags: UInt8s
    offset: Int64s
    length: Int64s
    missing: Int64s
    window: Int64s | None = None


FIN: Final = 1
SYN: Final = 2
RST: Final = 4
ACK: Final = 16


class Tls(msgspec.Struct):
    """TLS facts of a connection; by side the decrypted bytes of data, and the bytes that were not decrypted."""

    client: Side
    #: The name that the client asks for (SNI).
    server_name: str | None = None
    #: "TLS 1.3"; empty until it is agreed on.
    version: str = ""
    content: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    unread: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    #: The reason why something was not decrypted; empty if all was.
    why: str = ""


class ProxyTlv(msgspec.Struct):
    """An addition to a PROXY header: its type, the name of that, and its value; bytes of unknown layout as base64."""

    type: int
    name: str
    value: str | int | dict[str, str | int]


class ProxyHeader(msgspec.Struct, omit_defaults=True):
    """A PROXY header. Source: HAProxy, doc/proxy-protocol.txt.

    `command`: proxy, or local for a connection of the proxy itself (a health check). `family`: tcp4, tcp6, udp4, udp6,
    unix_stream, unix_datagram; unspec and unknown have no addresses. `size`: its captured bytes. `source` and
    `destination`: the ends of the client's connection to the proxy, as `address:port` or as a path. `fault`: what is
    wrong with the header; empty if nothing is.
    """

    version: int
    command: str
    family: str
    size: int
    source: str | None = None
    destination: str | None = None
    tlvs: list[ProxyTlv] = msgspec.field(default_factory=list)
    fault: str = ""

    @property
    def client(self) -> str | None:
        """`address:port` of the client; None if the header does not have it, or has a fault that makes it doubtful."""
        is_address = self.family in ("tcp4", "tcp6", "udp4", "udp6")
        return self.source if is_address and self.command == "proxy" and self.fault in ("", PROXY_HEADER_CUT) else None


#: The fault of a header that a gap or the end of the connection cuts: the part before it is certain.
PROXY_HEADER_CUT: Final = "it is cut"


#: Fewer bytes of a broker are no answer: a TLS listener may send an alert of 7 bytes to bytes that are not TLS.
LEAST_ANSWER: Final = 8


class Proxied(msgspec.Struct):
    """The PROXY headers at the beginning of a connection, each from one proxy: the last one names the client.

    `side`: the side of the proxy, which is the end of the TCP connection.
    """

    side: Side
    headers: list[ProxyHeader]

    @property
    def size(self) -> int:
        return sum([header.size for header in self.headers])

    @property
    def is_health_check(self) -> bool:
        """True if the connection is the proxy's own."""
        return self.headers[-1].command == "local"

    @property
    def client(self) -> str | None:
        """`address:port` of the client; None if it is unknown, or is the proxy itself.

        The last header is that of the proxy nearest to the client. If that proxy sends LOCAL or has no address, the
        header before names the proxy.
        """
        return next((client for header in reversed(self.headers) if (client := header.client)), None)


class Flow(msgspec.Struct, eq=False):
    """A TCP connection: numbered from 0 in order of first packet; a reused port is a new flow.

    All stages share it, and each adds its facts: reassembly makes it and counts bytes and gaps; proxy sets `proxied`;
    tls sets `tls`, and `service` if nothing is decrypted; framing sets `service` and `client_side`; exchange sets
    `software_name` and `software_version`. Earlier stages read one fact of a later one: proxy and tls ignore a
    connection whose `service` is known.
    """

    id: int
    ends: Ends
    first_packet: int
    first_time_ns: int
    #: Side that sent the SYN (not SYN-ACK); None when the connection began before the capture.
    opened_by: Side | None = None
    service: Service = "unknown"
    #: Side of the Kafka client, recognised by content; None until it is known.
    client_side: Side | None = None
    #: From the client's ApiVersions request (KIP-511).
    software_name: str | None = None
    software_version: str | None = None
    last_packet: int = 0
    last_time_ns: int = 0
    gaps: int = 0
    #: By side: True if its first known byte is the first of its stream.
    begun: tuple[bool, bool] = (False, False)
    #: Payload bytes of side 0 and side 1, retransmissions not counted twice.
    stream_bytes: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    #: Bytes of each side that the capture does not have, as far as their number is known.
    missing_bytes: tuple[int, int] = (0, 0)
    #: Set for a connection that begins with PROXY headers.
    proxied: Proxied | None = None
    #: Set for a connection that begins with TLS.
    tls: Tls | None = None
    #: Network measurements of its packets, on request.
    transport: Transport | None = None
    #: The forgotten flow that continues here, on both sides at the next expected byte.
    continues: int | None = None

    @property
    def calling_side(self) -> Side:
        """The side of the client; side 0 or the sender of the SYN until content shows the client."""
        return self.client_side if self.client_side is not None else (self.opened_by or 0)

    @property
    def client(self) -> str:
        """`address:port` of the client: from the PROXY header, or the end of the TCP connection."""
        side, proxied = self.calling_side, self.proxied
        return (proxied.client if proxied is not None and proxied.side == side else None) or self.ends[side]

    @property
    def broker(self) -> str:
        return self.ends[1 - self.calling_side]

    @property
    def proxy(self) -> str | None:
        """`address:port` of the TCP connection's end that sent a PROXY header; None without a header."""
        proxied = self.proxied
        return self.ends[proxied.side] if proxied is not None and proxied.side == self.calling_side else None

    @property
    def software(self) -> str | None:
        """Name and version of the client, as it introduced itself (KIP-511)."""
        return " ".join(part for part in (self.software_name, self.software_version) if part) or None

    @property
    def content_bytes(self) -> int:
        """Payload bytes of both sides without PROXY headers."""
        return sum(self.stream_bytes) - (0 if self.proxied is None else self.proxied.size)

    def sender(self, side: Side | int) -> Literal["client", "broker"]:
        """Return which end sends the bytes of a side."""
        return "client" if side == self.calling_side else "broker"


@final
class Opened(msgspec.Struct, eq=False):
    """A connection is seen for the first time."""

    flow: Flow
    packet: int
    time_ns: int


@final
class Closed(msgspec.Struct, eq=False):
    """A connection ends.

    `how` is fin (both directions finished), rst, reused (a new SYN on the same ports), restart (of the broker, as its
    request log shows), forgotten (too many connections) or capture (the capture ends).
    """

    flow: Flow
    packet: int
    time_ns: int
    how: Literal["fin", "rst", "reused", "restart", "forgotten", "capture"]
    #: None | The sender of the first FIN or of the RST, or the broker that was started again; None if there was none.
    side: Side | None = None


@final
class HalfClosed(msgspec.Struct, eq=False):
    """The first FIN of a connection: that side sends no more bytes."""

    flow: Flow
    packet: int
    time_ns: int
    side: Side


@final
class Gap(msgspec.Struct, eq=False):
    """Bytes of one direction that the capture does not have.

    They were lost between `first_packet` (the last one before the hole) and `last_packet` (the first one after it).
    `packet` is its position in the time line; `size` is -1 if unknown. In a decrypted TLS connection, bytes that were
    not decrypted are missing too. `reason` "snapped": the snap length cut them off; framing makes it "body" where
    all of them belong to one message whose head is there.
    """

    flow: Flow
    side: Side
    packet: int
    time_ns: int
    first_packet: int
    last_packet: int
    size: int
    reason: Literal["missing", "snapped", "body", "buffer_full", "at_close", "undecrypted", "unlogged"]


@final
class Late(msgspec.Struct, eq=False):
    """The items of a connection from packet `since` on became known only at this packet, too late for others to wait.

    It stands in the time line before all these items.
    """

    flow: int
    since: int
    packet: int


@final
class Frames(msgspec.Struct, eq=False):
    """Frames as columns, ordered by the packet at which each became known: the one time line that users see.

    `start` and `end` are the message's bounds in `buffer`, without its length prefix. `stream` is an index into `flows`
    (the connection) and `by_client` (True if the client sends; None if content has not shown it). `first_*` and
    `last_*` are the packets and times of a frame's first and last byte, with the length prefix; `knows` as in Message,
    -1 if unknown; `resync` marks frames found again after a gap, whose boundary is likely, not certain. `cut`: the
    bytes at the end of each message that are not in `buffer`, because the snap length cut them off or they are too
    many (`long`); `dropped`: how many of them the capture has.
    """

    buffer: bytes
    flows: list[Flow]
    by_client: list[bool | None]
    stream: Int64s
    start: Int64s
    end: Int64s
    first_packet: Int64s
    first_time_ns: Int64s
    last_packet: Int64s
    last_time_ns: Int64s
    knows: Int64s
    resync: NDArray[np.bool_]
    cut: Int64s
    dropped: Int64s
    long: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, rows: slice | list[int] | NDArray[Any]) -> Frames:
        """Return some of the frames, over the same buffer."""
        return Frames(
            self.buffer,
            self.flows,
            self.by_client,
            self.stream[rows],
            self.start[rows],
            self.end[rows],
            self.first_packet[rows],
            self.first_time_ns[rows],
            self.last_packet[rows],
            self.last_time_ns[rows],
            self.knows[rows],
            self.resync[rows],
            self.cut[rows],
            self.dropped[rows],
            self.long[rows],
        )


def null() -> None:
    """Return None, as `default_factory` of a field that `omit_defaults` would leave out: its JSON shows null."""


class Shown(msgspec.Struct):
    """An object with a JSON line."""

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the JSON line, with plain values. Bytes stay bytes, which are base64 there."""
        plain: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        return plain


@final
class Message(Shown, gc=False, omit_defaults=False):
    """One request or response; its fields, in this order, are the JSON line (`kshark read -T json`).

    UNSET fields are absent.
    """

    packet: int
    packets: tuple[int, int] | UnsetType
    time_ns: int
    flow: int
    client: str
    broker: str
    kind: Kind
    api_key: int | UnsetType
    api: str | UnsetType
    version: int | UnsetType
    correlation_id: int | UnsetType
    client_id: str | UnsetType | None
    request_packet: int | UnsetType
    latency_ns: int | UnsetType
    size: int
    body: Any
    weird: list[str] | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    file: str | UnsetType = UNSET
    frame: int | UnsetType = UNSET
    #: On a response: the group and member of its request, if its own body names none.
    group_id: str | UnsetType = UNSET
    member_id: str | UnsetType = UNSET
    #: The TCP connection's end, if it is a proxy that named the client in a PROXY header.
    proxy: str | UnsetType = UNSET
    #: The last packet of the other side that its sender had certainly received when it sent the first byte; 0: none. It
    #: is a fact for rules, and not part of the JSON line.
    knows: int | UnsetType = UNSET

    def to_dict(self) -> dict[str, Any]:
        plain = super().to_dict()
        plain.pop("knows", None)
        return plain

    def __repr__(self) -> str:
        name = "?" if self.api is UNSET else f"{self.api} v{self.version}"
        number = "" if self.correlation_id is UNSET else f" {self.correlation_id}"
        return f"<Message {name} {self.kind}{number}, packet {self.packet}, {self.client} > {self.broker}>"


#: Fields that a response takes from its request; bodies use the same names.
OWNER: Final = ("group_id", "member_id")


Remembered = TypeVar("Remembered", bound=tuple[Any, ...])


class ByMessage(dict[int, Remembered]):
    """State kept by message: tuples that begin with the message, by its id(), which changes when it is pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_message, ([*self.values()],)


def _by_message(remembered: list[Remembered]) -> ByMessage[Remembered]:
    return ByMessage((id(entry[0]), entry) for entry in remembered)


@final
class Exchange(msgspec.Struct, gc=False, eq=False):
    """A request with its response, or either alone, emitted when it is complete.

    That is after the response; at once for one-way requests; for unanswered ones when they are given up, at the latest
    when the connection or the capture ends. `packet` is its position in the time line: the packet that completed it.
    """

    request: Message | None
    response: Message | None
    outcome: Outcome
    flow: Flow
    packet: int


@final
class Weird(msgspec.Struct, gc=False):
    """A fact about these bytes, which may be the capture's fault. `code` is from the catalogue (kshark.anomaly),
    `stage` found it.

    `packet` is where it became known, `first_packet` where it began, `size` the bytes concerned (0: none). One may
    stand for many; then `times` is their number. `correlation_id` is that of the request concerned. `by_ns` is how far
    the capture's clock is wrong (kshark.link.disorder), or how long it has lasted (kshark.reassembly.stalls), in
    nanoseconds.
    """

    code: str
    stage: Literal["capture", "link", "reassembly", "proxy", "tls", "framing", "exchange", "codec", "records"]
    packet: int
    time_ns: int
    detail: str = ""
    flow: int | None = None
    side: int | None = None
    first_packet: int | None = None
    size: int = 0
    times: int = 1
    correlation_id: int | None = None
    by_ns: int | None = None


class PacketInFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A packet in one of several files: its number in the merge, and its file and number there.

    `is_line`: the file is a request log, and `frame` the number of a line.
    """

    packet: int
    file: str
    frame: int
    is_line: bool = False


class Witness(Shown, gc=False, omit_defaults=True):
    """The evidence of a finding: an exchange, or another event on a connection (`event`, at `packet`).

    `places`: the positions of its packets, if there are several files.
    """

    flow: int
    correlation_id: int | None
    request_packet: int | None
    response_packet: int | None
    packet: int | None = msgspec.field(default_factory=null)
    event: str | None = msgspec.field(default_factory=null)
    places: list[PacketInFile] | None = None

    def __repr__(self) -> str:
        shown = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return f"Witness({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Finding(Shown, gc=False):
    """A rule of the protocol that was broken, or may have been; its fields, in this order, are the JSON line (`kshark
    check -T json`).
    """

    code: str
    rule: int | None
    severity: Literal["error", "warn", "note"]
    verdict: Literal["violation", "unknown", "note"]
    blame: Literal["client", "broker", "network", "capture", "unknown"]
    time_ns: int
    packet: int
    flow: int
    broker: str
    client: str
    group_id: str | None
    member_id: str | None
    topic_id: str | None
    partition: int | None
    cause: str | None
    witness: list[Witness]
    argument: str
    unknown_because: str | None
    #: None = None | The client's own name, if its ApiVersions request gave one.
    client_id: str | None = None
    software: str | None = None
    #: The records concerned.
    first_offset: int | None = None
    last_offset: int | None = None
    #: As in Message.
    proxy: str | None = None
    #: Of an incident: its last packet and time; None if it lasted when the capture ended. The time alone is inferred:
    #: no packet shows the end.
    until_ns: int | UnsetType | None = UNSET
    until_packet: int | UnsetType | None = UNSET
    #: The incident that explains the finding: its code and first packet.
    event_code: str | None = None
    event_packet: int | None = None

    def __repr__(self) -> str:
        name = self.client if self.client_id is None else repr(self.client_id)
        return f"<Finding {self.code} {self.verdict}, packet {self.packet}, client {name}>"


Event = Frames | Message | Exchange | Weird | Gap | Late | Opened | HalfClosed | Closed | Tick
