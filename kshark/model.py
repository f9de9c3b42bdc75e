"""The nouns, in flow order: what the stages hand to each other. Times are the packets', as integer nanoseconds since
1970.

Events have no subclasses, so `type(event) is Gap` tells which one it is: of a struct isinstance takes four times as
long to say no."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, final

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kshark.transport import Transport

    Int64s = NDArray[np.int64]
    UInt8s = NDArray[np.uint8]

Side = Literal[0, 1]
Kind = Literal["request", "response", "unknown"]
Service = Literal["unknown", "kafka", "tls", "http", "other"]
Outcome = Literal["answered", "unanswered", "one_way", "orphan"]


@dataclass(slots=True)
class PacketBatch:
    """Packets as columns over one buffer, in the order of the capture.

    `number` counts from 1 over the whole capture, `link_type` is a LINKTYPE_ value (tcpdump.org/linktypes), `offset`
    and `length` say where the captured bytes are in `buffer`, `wire_length` how long the packet was before the snap
    length cut it."""

    buffer: bytes
    number: Int64s
    time_ns: Int64s
    link_type: Int64s
    offset: Int64s
    length: Int64s
    wire_length: Int64s
    #: Lines of a TLS key log that the capture itself has before these packets.
    secrets: bytes = field(default=b"", repr=False)


class Ends(NamedTuple):
    """Both ends of a connection (kshark.endpoints); ends[0] sent the first packet that was seen."""

    first: str
    second: str


class EndsOf(Protocol):
    """The ends of a pair, by the number that kshark.link gave it."""

    def __getitem__(self, pair: int, /) -> Ends: ...


class Moment(NamedTuple):
    """A place in the capture: a packet, and the greatest time of all packets up to it."""

    packet: int
    clock_ns: int


#: Before the first packet.
BEGIN: Final = Moment(0, 0)


class Segments(msgspec.Struct):
    """TCP segments as columns, in the order of the capture.

    `clock_ns` is the greatest time of all packets up to each, since times may run backwards.
    `path` numbers the directed four-tuple: path >> 1 is the connection's pair of ends (an index into `ends`), path & 1
    the side that sent (0: ends.first). `seq` and `ack` are the header's 32 bits, `offset`/`length` the payload in
    `buffer`, `missing` payload bytes that the snap length cut off, `window` the receive window as the header has it,
    None where nobody has to know."""

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
    """What a TLS connection shows, and what came of it: by side the bytes of data found inside, and the bytes that were
    not decrypted."""

    client: Side
    #: As the client asks for it (SNI).
    server_name: str | None = None
    #: "TLS 1.3"; empty as long as it is not agreed on.
    version: str = ""
    content: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    unread: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    #: Why something was not decrypted; empty where all was.
    why: str = ""


class Flow(msgspec.Struct, eq=False):
    """A TCP connection: numbered from 0 in order of first packet; a reused port is a new flow.

    All stages share it, and each adds the facts that it finds: reassembly makes it and counts bytes and gaps; tls sets
    `tls`, and `service` where nothing is decrypted; framing sets `service` and `client_side`; exchange sets
    `software_name` and `software_version`. One fact is read by an earlier stage: tls leaves a connection alone whose
    `service` is known."""

    id: int
    ends: Ends
    first_packet: int
    first_time_ns: int
    #: Side that sent the SYN (not SYN-ACK); None when the connection began before the capture.
    opened_by: Side | None = None
    service: Service = "unknown"
    #: Side of the Kafka client, told by content; None until it is known.
    client_side: Side | None = None
    #: From the client's ApiVersions request (KIP-511).
    software_name: str | None = None
    software_version: str | None = None
    last_packet: int = 0
    last_time_ns: int = 0
    gaps: int = 0
    #: Whether the first byte known of side 0 and side 1 is the first of its stream.
    begun: tuple[bool, bool] = (False, False)
    #: Payload bytes of side 0 and side 1, retransmissions not counted twice.
    stream_bytes: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    #: Bytes of either side that the capture does not have, as far as their number is known.
    missing_bytes: tuple[int, int] = (0, 0)
    #: Of a connection that begins with TLS.
    tls: Tls | None = None
    #: What its packets say of the network, where somebody asked.
    transport: Transport | None = None
    #: The number of the flow that was forgotten and goes on here, on both sides with the byte that was due.
    continues: int | None = None

    @property
    def client(self) -> str:
        """`address:port` of the client (of side 0, or the sender of the SYN, until content tells)."""
        side = self.client_side if self.client_side is not None else (self.opened_by or 0)
        return self.ends[side]

    @property
    def broker(self) -> str:
        side = self.client_side if self.client_side is not None else (self.opened_by or 0)
        return self.ends[1 - side]


@final
class Opened(msgspec.Struct, eq=False):
    """A connection is seen for the first time."""

    flow: Flow
    packet: int
    time_ns: int


@final
class Closed(msgspec.Struct, eq=False):
    """A connection ends: `how` is fin (both directions finished), rst, reused (a new SYN on the same ports), forgotten
    (too many connections) or capture (the capture ends)."""

    flow: Flow
    packet: int
    time_ns: int
    how: Literal["fin", "rst", "reused", "forgotten", "capture"]
    #: Who sent the first FIN or the RST; None if nobody did.
    side: Side | None = None


@final
class HalfClosed(msgspec.Struct, eq=False):
    """The first FIN of a connection: that side sends nothing any more."""

    flow: Flow
    packet: int
    time_ns: int
    side: Side


@final
class Gap(msgspec.Struct, eq=False):
    """Bytes of one direction that the capture does not have: lost between `first_packet` (the last one before the hole)
    and `last_packet` (the first one after it). `packet` is its place in the time line, `size` -1 if unknown. Where TLS
    is decrypted, bytes that were not are missing too."""

    flow: Flow
    side: Side
    packet: int
    time_ns: int
    first_packet: int
    last_packet: int
    size: int
    reason: Literal["missing", "snapped", "buffer_full", "at_close", "undecrypted"]


@final
class Late(msgspec.Struct, eq=False):
    """What came of a connection from packet `since` on was known only with this packet, so much later that others did
    not wait for it.

    Stands in the time line before all that.
    """

    flow: int
    since: int
    packet: int


@final
class Frames(msgspec.Struct, eq=False):
    """Frames as columns, ordered by the packet with which each was known: the one time line that later stages and users
    see.

    `start`/`end` are the message's bounds in `buffer`, without its length prefix. `stream` is an index into `flows`
    (the connection) and `by_client` (whether the client sends; None if content has not told). `first_*`/`last_*` are
    the packets and times of a frame's first and last byte, the length prefix included; `resync` marks frames found
    again after a gap, whose boundary is likely, not certain."""

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
    resync: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, rows: slice | list[int] | NDArray[Any]) -> Frames:
        """Some of them, over the same buffer."""
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
            self.resync[rows],
        )


@final
class Message(msgspec.Struct, gc=False, omit_defaults=False):
    """One request or response; its fields, in this order, are the JSON line (`kshark read -T json`). UNSET is
    absent."""

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
    #: On an answer: those of its request, where its own body names none.
    group_id: str | UnsetType = UNSET
    member_id: str | UnsetType = UNSET


#: What an answer has from its request, by the names that the fields have in bodies too.
OWNER: Final = ("group_id", "member_id")


Remembered = TypeVar("Remembered", bound=tuple[Any, ...])


class ByMessage(dict[int, Remembered]):
    """What is remembered of messages: tuples that begin with the message, by its id(), which is another one when it was
    pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_message, ([*self.values()],)


def _by_message(remembered: list[Remembered]) -> ByMessage[Remembered]:
    return ByMessage((id(one[0]), one) for one in remembered)


@final
class Exchange(msgspec.Struct, gc=False, eq=False):
    """A request with its response, or either alone; emitted when it is complete: after the response; at once for
    one-way requests; for unanswered ones when they are given up, at the latest when the connection (or the capture)
    ends. `packet` is its place in the time line: the one that completed it."""

    request: Message | None
    response: Message | None
    outcome: Outcome
    flow: Flow
    packet: int


@final
class Weird(msgspec.Struct, gc=False):
    """A fact about these bytes, which may be the capture's fault: `code` is the catalogue's (kshark.anomaly), `stage`
    who saw it.

    `packet` is where it became known, `first_packet` where it began, `size` the bytes concerned (0: none); one may
    stand for many, then
    `times` says how often it was seen. `correlation_id`: of the request that it is about.
    """

    code: str
    stage: Literal["capture", "link", "reassembly", "tls", "framing", "exchange", "codec", "records"]
    packet: int
    time_ns: int
    detail: str = ""
    flow: int | None = None
    side: int | None = None
    first_packet: int | None = None
    size: int = 0
    times: int = 1
    correlation_id: int | None = None


class Place(msgspec.Struct, frozen=True):
    """A packet, in one of several files: its number in the merge, and there."""

    packet: int
    file: str
    frame: int


class Witness(msgspec.Struct, gc=False):
    """What a finding rests on: an exchange, or something else that happened on a connection (`event`, at `packet`).

    `places`: where its packets are, if there are several files.
    """

    flow: int
    correlation_id: int | None
    request_packet: int | None
    response_packet: int | None
    packet: int | None = None
    event: str | None = None
    places: list[Place] | UnsetType = UNSET


class Finding(msgspec.Struct, gc=False):
    """A rule of the protocol that was broken, or may have been: its fields, in this order, are the JSON line (`kshark
    check -T json`)."""

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
    #: Who the client said it is, where its ApiVersions request told.
    client_id: str | None = None
    software: str | None = None
    #: The records that it is about.
    first_offset: int | None = None
    last_offset: int | None = None


Event = Frames | Message | Exchange | Weird | Gap | Late | Opened | HalfClosed | Closed
