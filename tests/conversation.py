"""Conversations between share-group members and brokers, as real packets: what tests say in Kafka's words, kshark reads
from the wire.

talk = Conversation()
a = talk.member("a", group="g")
a.share_fetch(epoch=0).answered()
late = a.share_fetch(epoch=3).answered(INVALID_SHARE_SESSION_EPOCH)
assert findings(talk) == [violation("EPOCH_SKIP_AHEAD", blame="client", at=late)]
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import kshark
from kshark.analysis import Analyzer
from kshark.analysis.rules import BOOK
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.model import SYN, Event, Finding
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from kshark.schema import Api
from kshark_dissectors.enums import ErrorCode
from tests.packets import Packet, Tcp, Wire, batch
from tests.rows import as_the_rows_say

BROKER = "10.0.0.9:9092"
_BROKER_PORT = struct.pack(">H", 9092)
TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
#: Highest ShareFetch version that a broker of a release offers; None: no share APIs advertised.
SHARE_FETCH_OF = {"4.0": 0, "4.1": 1, "4.2": 2, "4.3": 2, "4.4": 2}


@dataclass(frozen=True)
class Told:
    """A finding as tests say it: where, what, whose fault."""

    code: str
    verdict: str
    packet: int
    blame: str | None = None
    cause: str | None = None
    because: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Finding):
            return NotImplemented
        return (self.code, self.verdict, self.packet) == (other.code, other.verdict, other.packet) and all(
            said is None or said == found
            for said, found in (
                (self.blame, other.blame),
                (self.cause, other.cause),
                (self.because, other.unknown_because),
            )
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Asked:
    """A request on the wire; `answered` puts its response there too."""

    connection: Connection
    api: str
    key: int
    version: int
    correlation_id: int
    packets: list[int]
    answer_packets: list[int] = field(default_factory=list)
    #: Partitions that it acknowledges records of: topic id and number.
    acknowledged: list[tuple[str, int]] = field(default_factory=list)

    @property
    def packet(self) -> int:
        """Where a finding at this exchange stands: the answer's last packet, else the request's."""
        return (self.answer_packets or self.packets)[-1]

    @property
    def sent(self) -> int:
        """Where a finding stands that is about the request alone."""
        return self.packets[-1]

    @property
    def all_packets(self) -> list[int]:
        return [*self.packets, *self.answer_packets]

    def answered(self, error: int | None = 0, *, acks: dict[int, int] | None = None, **body: Any) -> Asked:
        """`acks`: what became of the acknowledgements, by partition; they were taken unless told. `error` None: the
        answer has none."""
        if error == 0 and self.acknowledged:
            body["responses"] = self._results(acks or {}, body.get("responses", []))
        told = {} if error is None else {"error_code": int(error)}
        header = struct.pack(">i", self.correlation_id) + b"\0" * _api(self.key).response_header_version(self.version)
        data = header + kshark.encode(self.key, self.version, "response", {**told, **body})
        self.answer_packets = self.connection.tcp.broker(struct.pack(">i", len(data)) + data)
        return self

    def committed(self, error: int = 0) -> Asked:
        """The answer to an OffsetCommit of one partition."""
        return self.answered(None, topics=[{"name": "t", "partitions": [{"partition_index": 0, "error_code": error}]}])

    def joined(self, generation: int, member_id: str) -> Asked:
        """The answer to a JoinGroup: the generation."""
        given = {"generation_id": generation, "protocol_name": "range", "leader": "", "members": []}
        return self.answered(member_id=member_id, **given)

    def given(self, epoch: int, *, assignment: Any = None, interval_ms: int = 5000) -> Asked:
        """The answer to a heartbeat: the member epoch, and an assignment where that is new."""
        return self.answered(member_id="", member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment)

    def _results(self, errors: dict[int, int], responses: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Every partition that was acknowledged has a place in the answer."""
        field = "acknowledge_error_code" if self.key == SHARE_FETCH else "error_code"
        rest = [*self.acknowledged]
        told = []
        for topic in responses:
            partitions = []
            for partition in topic["partitions"]:
                here = (topic["topic_id"], partition["partition_index"])
                rest = [one for one in rest if one != here]
                partitions.append({field: errors.get(partition["partition_index"], 0), **partition})
            told.append({**topic, "partitions": partitions})
        records = {"records": b""} if self.key == SHARE_FETCH else {}
        alone = [
            {"topic_id": t, "partitions": [{"partition_index": p, field: errors.get(p, 0), **records}]}
            for t, p in dict.fromkeys(rest)
        ]
        return [*told, *alone]


@dataclass
class Connection:
    """A TCP connection of a client to a broker."""

    talk: Conversation
    tcp: Tcp
    client_id: str = "c1"
    correlation_id: int = 0

    def ask(self, key: int, api: str, version: int, body: dict[str, Any]) -> Asked:
        """Sends one request."""
        self.correlation_id += 1
        name = self.client_id.encode()
        header = struct.pack(">hhih", key, version, self.correlation_id, len(name)) + name
        flexible = _api(key).request_header_version(version) == 2
        data = header + b"\0" * flexible + kshark.encode(key, version, "request", body)
        asked = Asked(
            self, api, key, version, self.correlation_id, self.tcp.client(struct.pack(">i", len(data)) + data)
        )
        if key in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            asked.acknowledged = [
                (topic["topic_id"], partition["partition_index"])
                for topic in body["topics"]
                for partition in topic["partitions"]
                if partition["acknowledgement_batches"]
            ]
        self.talk.exchanges.append(asked)
        return asked

    def api_versions(
        self, release: str | None, name: str = "apache-kafka-java", version: str = "4.3.1", error: int = 0
    ) -> Asked:
        """The client introduces itself, the broker says what it speaks: that is how a release is known."""
        newest = 5 if release == "4.4" else 4
        keys = [
            {"api_key": 18, "min_version": 0, "max_version": newest},
            {"api_key": 3, "min_version": 0, "max_version": 13},
        ]
        if release is not None:
            top = SHARE_FETCH_OF[release]
            keys += [{"api_key": key, "min_version": min(top, 1), "max_version": top} for key in (78, 79)]
        asked = self.ask(18, "ApiVersions", 3, {"client_software_name": name, "client_software_version": version})
        return asked.answered(error, api_keys=keys)

    def pipelined(self) -> AbstractContextManager[None]:
        """While this lasts, the client has not received the answers that the capture already shows."""
        return self.tcp.on_the_way()

    def close(self) -> None:
        self.tcp.close()

    def reset(self) -> None:
        self.tcp.reset()


@dataclass
class Member:
    """A member of a share group on one connection (another one by `on`)."""

    connection: Connection
    group: str | None
    member_id: str
    #: The API of its heartbeats: 68 of a consumer group.
    api_key: int = 76

    def on(self, connection: Connection) -> Member:
        return Member(connection, self.group, self.member_id, self.api_key)

    def heartbeat(
        self, epoch: int, topics: Collection[str] | None = None, *, rack_id: str | None = None, **fields: Any
    ) -> Asked:
        return self.connection.ask(
            self.api_key,
            "ConsumerGroupHeartbeat" if self.api_key == 68 else "ShareGroupHeartbeat",
            1,
            {
                "group_id": self.group,
                "member_id": self.member_id,
                "member_epoch": epoch,
                "rack_id": rack_id,
                "subscribed_topic_names": None if topics is None else list(topics),
                **fields,
            },
        )

    def join(self) -> Asked:
        return self.heartbeat(0, ["t"]).given(1, assignment={"topic_partitions": []})

    def join_group(self, generation: int, *, instance: str | None = None, session_ms: int = 10_000) -> Asked:
        """A JoinGroup of a classic member, which gets this generation."""
        return self.joining(instance=instance, session_ms=session_ms).joined(generation, self.member_id)

    def joining(self, *, instance: str | None = None, session_ms: int = 10_000, rebalance_ms: int = 60_000) -> Asked:
        """A JoinGroup of a classic member, without an answer so far."""
        body = {
            "group_id": self.group,
            "session_timeout_ms": session_ms,
            "rebalance_timeout_ms": rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [],
        }
        return self.connection.ask(11, "JoinGroup", 5, body)

    def classic_heartbeat(self, generation: int, *, instance: str | None = None) -> Asked:
        """A Heartbeat of a classic member."""
        body = {"group_id": self.group, "generation_id": generation, "member_id": self.member_id}
        return self.connection.ask(12, "Heartbeat", 3, {**body, "group_instance_id": instance})

    def leave_group(self, reason: str | None = None) -> Asked:
        """A LeaveGroup of a classic member, which is accepted."""
        identity = {"member_id": self.member_id, "group_instance_id": None}
        body = {"group_id": self.group, "members": [{**identity, "reason": reason}]}
        return self.connection.ask(13, "LeaveGroup", 5, body).answered(members=[{**identity, "error_code": 0}])

    def commit(self, epoch: int, *, version: int = 9) -> Asked:
        """An OffsetCommit of one partition with this member epoch or generation; `committed` answers it."""
        partition = {
            "partition_index": 0,
            "committed_offset": 3,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = {
            "group_id": self.group,
            "member_id": self.member_id,
            "generation_id_or_member_epoch": epoch,
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": [partition]}],
        }
        return self.connection.ask(8, "OffsetCommit", version, body)

    def share_fetch(
        self,
        epoch: int,
        partitions: Iterable[int] = (),
        *,
        acks: Iterable[tuple[int, int, int]] = (),
        forget: Iterable[int] = (),
        version: int = 1,
        topic: str = TOPIC,
        **fields: Any,
    ) -> Asked:
        """A ShareFetch that lists `partitions` of one topic; `acks` are (first, last, type) on the first of them."""
        listed = list(partitions)
        batches = [{"first_offset": a, "last_offset": b, "acknowledge_types": [t]} for a, b, t in acks]
        rows = [
            {"partition_index": p, "acknowledgement_batches": batches if i == 0 else []} for i, p in enumerate(listed)
        ]
        gone = list(forget)
        body = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": epoch,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [{"topic_id": topic, "partitions": rows}] if rows else [],
            "forgotten_topics_data": [{"topic_id": topic, "partitions": gone}] if gone else [],
        }
        if version == 0:
            del body["max_records"], body["batch_size"]
        return self.connection.ask(78, "ShareFetch", version, {**body, **fields})

    def share_acknowledge(
        self,
        epoch: int,
        acks: Iterable[tuple[int, int, int]] = (),
        *,
        partition: int = 0,
        version: int = 1,
        topic: str = TOPIC,
        renew: bool = False,
        batches: list[dict[str, Any]] | None = None,
    ) -> Asked:
        """`acks` are (first, last, type) of one partition; `batches`: these instead, as they are."""
        told = batches or [{"first_offset": a, "last_offset": b, "acknowledge_types": [t]} for a, b, t in acks]
        rows = (
            [{"topic_id": topic, "partitions": [{"partition_index": partition, "acknowledgement_batches": told}]}]
            if told
            else []
        )
        body: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": epoch,
            "topics": rows,
        }
        if version >= 2:
            body["is_renew_ack"] = renew
        return self.connection.ask(79, "ShareAcknowledge", version, body)


class Conversation:
    """A wire with members and brokers talking on it, one packet a millisecond."""

    def __init__(self, *, release: str | None = "4.2") -> None:
        self.wire = Wire(stamped=True)
        self.release = release
        self.exchanges: list[Asked] = []
        self._ports = 50_000

    def connection(
        self, broker: str = BROKER, host: str = "10.0.0.1", *, from_syn: bool = True, introduced: bool = True,
        header: bytes = b"",
    ) -> Connection:  # fmt: skip
        """A new connection; `from_syn` False: it began before the capture; `header`: a PROXY header; `introduced`:
        ApiVersions comes first."""
        self._ports += 1
        tcp = Tcp(self.wire, f"{host}:{self._ports}", broker, [self._ports * 1000, self._ports * 3000])
        connection = Connection(self, tcp.open() if from_syn else tcp)
        if header:
            tcp.client(header)
        if introduced:
            connection.api_versions(self.release)
        return connection

    def member(
        self, name: str, group: str = "g", connection: Connection | None = None, *, joined: bool = True,
        api_key: int = 76,
    ) -> Member:  # fmt: skip
        """A member whose id is its name, padded to a uuid's 22 characters; `joined`: its first heartbeat is in the
        capture."""
        member = Member(connection or self.connection(), group, name.ljust(22, "A"), api_key)
        if joined:
            member.join()
        return member

    def consumer(self, name: str, connection: Connection | None = None, *, joined: bool = True) -> Member:
        """A member of a consumer group (KIP-848)."""
        return self.member(name, connection=connection, joined=joined, api_key=68)

    def pause(self, seconds: float) -> None:
        self.wire.pause(seconds)

    def packets(self) -> list[tuple[int, Packet]]:
        return list(enumerate(self.wire.packets, 1))

    def without_packets(self, numbers: Collection[int]) -> Thinned:
        """The same capture from a sniffer that missed these packets; the others keep their numbers."""
        return Thinned([(n, p) for n, p in self.packets() if n not in set(numbers)])

    def without_exchange(self, index: int) -> Thinned:
        """Without the packets of the exchange at that place in `exchanges`."""
        return self.without_packets(self.exchanges[index].all_packets)


def unheard(talk: Conversation) -> Thinned:
    """The same conversation with all answers on their way until its end: clients have acknowledged none of them."""
    first: dict[bytes, bytes] = {}
    rows = []
    for number, packet in talk.packets():
        data, flags = packet.data, packet.data[47]
        if data[36:38] == _BROKER_PORT and not flags & SYN:
            ends, ack = data[26:38], data[42:46]
            data = data[:42] + first.setdefault(ends, ack) + data[46:]
        rows.append((number, replace(packet, data=data)))
    return Thinned(rows)


@dataclass
class Thinned:
    """What is left of a conversation; packets keep the numbers they had in the whole."""

    rows: list[tuple[int, Packet]]

    def packets(self) -> list[tuple[int, Packet]]:
        return self.rows


@cache
def registry() -> Registry:
    """Looked up once: a folder of installed dissectors takes as long to search as a conversation to judge."""
    return Registry()


def _api(key: int) -> Api:
    found = registry().api(key)
    assert found is not None
    return found


def events(talk: Conversation | Thinned, options: Options | None = None, batch_size: int = 1_000_000) -> list[Event]:
    """Everything the engine makes of the conversation's packets."""
    import numpy as np

    rows = talk.packets()
    batches = []
    for at in range(0, len(rows), batch_size):
        some = rows[at : at + batch_size]
        batches.append(batch([p for _, p in some]))
        batches[-1].number = np.array([n for n, _ in some], np.int64)
    return [event for page in Engine(options, registry()).pages(batches) for event in page]


def everything(talk: Conversation | Thinned, *, exact: bool = False, complete: bool = False) -> list[Finding]:
    """What `kshark check` finds, in the order of packets."""
    analyzer = Analyzer(exact=exact, complete=complete)
    found = [finding for event in events(talk) for finding in analyzer.feed(event)]
    found += analyzer.close()
    return sorted(as_the_rows_say(found), key=lambda finding: (finding.packet, finding.code))


def findings(talk: Conversation | Thinned, *, exact: bool = False, complete: bool = False) -> list[Finding]:
    """The same but for what accuses nobody and is about bytes: that some are missing, that a connection ended with
    requests open."""
    found = everything(talk, exact=exact, complete=complete)
    return [it for it in found if it.verdict == "violation" or not BOOK.by_code[it.code].weird]


def violation(code: str, at: Asked | int, blame: str | None = None, cause: str | None = None) -> Told:
    """`at` is the exchange, here and below, or the packet where the finding stands elsewhere than at the exchange's
    end."""
    return Told(code, "violation", _packet(at), blame, cause)


def unknown(code: str, at: Asked | int, because: str | None = None, cause: str | None = None) -> Told:
    return Told(code, "unknown", _packet(at), None, cause, because)


def note(code: str, at: Asked | int, cause: str | None = None) -> Told:
    return Told(code, "note", _packet(at), None, cause)


def _packet(at: Asked | int) -> int:
    return at if isinstance(at, int) else at.packet


INVALID_SHARE_SESSION_EPOCH = ErrorCode.INVALID_SHARE_SESSION_EPOCH
SHARE_SESSION_NOT_FOUND = ErrorCode.SHARE_SESSION_NOT_FOUND
