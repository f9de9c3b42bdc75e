"""What conversations about sessions have in common: opened sessions, records handed out, assignments, restarts."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import kshark
from kshark.analysis import Analyzer
from kshark.analysis.results.deliveries import InFlightState
from kshark.api_keys import SHARE_FETCH
from kshark.model import ACK, FIN, SYN, Finding
from kshark.records import Record
from kshark.records.writer import write_batch
from tests.conversation import BROKER, TOPIC, Asked, Connection, Conversation, Member, Thinned, events, findings
from tests.packets import Tcp

ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
UNKNOWN_MEMBER_ID = 25
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE_REACHED = 81
FENCED_MEMBER_EPOCH = 110
SHARE_SESSION_LIMIT_REACHED = 133
UNKNOWN_SERVER_ERROR = -1


def opened(talk: Conversation, upto: int = 0, *, name: str = "a", **how: Any) -> Member:
    """A member whose session has had the epochs up to that one accepted."""
    member = talk.member(name, **how)
    for epoch in range(upto + 1):
        member.share_fetch(epoch).answered()
    return member


def stranger(talk: Conversation, name: str = "a") -> Member:
    """A member of whose connection the capture does not hold the beginning: where its first requests begin is likely,
    not certain."""
    return talk.member(name, connection=talk.connection(from_syn=False, introduced=False), joined=False)


def unread(connection: Connection) -> None:
    """A ShareFetch that ends within its body; it is answered."""
    connection.correlation_id += 1
    number = connection.correlation_id
    connection.tcp.client(struct.pack(">ihhih", 13, SHARE_FETCH, 1, number, 1) + b"c\0\x7f")
    connection.tcp.broker(struct.pack(">iib", 5, number, 0))


def left_in_flight(talk: Conversation) -> InFlightState:
    """What the records of the only share partition are in where the capture breaks off."""
    analyzer = Analyzer()
    analyzer.page(events(talk))
    (partition,) = analyzer.in_flight(talk.wire.time_ns)
    return partition


def batch_of(first: int, last: int, *, without: Collection[int] = (), control: bool = False, **header: Any) -> bytes:
    """A batch with a record for each of these offsets, but for those that compaction took; `control`: markers of
    transactions."""
    key, value = (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 1)) if control else (None, b"value")
    records = [Record(offset, 0, key, value, ()) for offset in range(first, last + 1) if offset not in without]
    return write_batch(
        records, base_offset=first, last_offset_delta=last - first, control=control, transactional=control, **header
    )


def handed(*ranges: tuple[int, ...], records: bytes = b"") -> list[dict[str, Any]]:
    """Acquired records, by (partition, first, last), and the delivery count where it is not 1; `records`: those of each
    partition."""
    acquired: dict[int, list[dict[str, int]]] = {}
    for partition, first, last, *count in ranges:
        found = acquired.setdefault(partition, [])
        found.append({"first_offset": first, "last_offset": last, "delivery_count": count[0] if count else 1})
    partitions = [
        {"partition_index": p, "acquired_records": found, "records": records} for p, found in acquired.items()
    ]
    return [{"topic_id": TOPIC, "partitions": partitions}]


def led_elsewhere(
    node_id: int = 2, address: str = "10.0.0.8:9092", *, epoch: int = 5, error: int = 6, topic: str = TOPIC
) -> dict[str, Any]:
    """An answer that says who leads partition 0."""
    leader = {"leader_id": node_id, "leader_epoch": epoch}
    partition = {"partition_index": 0, "error_code": error, "current_leader": leader, "records": b""}
    host, _, port = address.rpartition(":")
    node = {"node_id": node_id, "host": host, "port": int(port), "rack": None}
    return {"responses": [{"topic_id": topic, "partitions": [partition]}], "node_endpoints": [node]}


def assigned(a: Member, *partitions: int) -> Asked:
    """A heartbeat whose answer assigns these partitions."""
    assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": list(partitions)}]}
    return a.heartbeat(1).given(1, assignment=assignment)


def unchanged(a: Member) -> Asked:
    """A heartbeat whose answer leaves everything as it was."""
    return a.heartbeat(1).given(1)


def left(a: Member) -> Asked:
    """The member leaves its group."""
    return a.heartbeat(-1).given(-1, interval_ms=0)


def codes(talk: Conversation | Thinned) -> list[tuple[str, str]]:
    """Code and verdict of everything found."""
    return [(finding.code, finding.verdict) for finding in findings(talk)]


def caused(talk: Conversation | Thinned) -> list[Finding]:
    """The findings that explain a refusal."""
    return [finding for finding in findings(talk) if finding.cause is not None]


def broker_closes(connection: Connection) -> None:
    """The broker ends the connection in good order."""
    connection.tcp._send(1, FIN | ACK)
    connection.tcp._send(0, FIN | ACK)
    connection.tcp._send(1, ACK)


def broker_refuses(talk: Conversation, broker: str = BROKER) -> None:
    """Nobody listens: a SYN is answered by RST."""
    talk._ports += 1
    tcp = Tcp(talk.wire, f"10.0.0.1:{talk._ports}", broker, [talk._ports * 1000, talk._ports * 3000])
    tcp._send(0, SYN)
    tcp.reset(1)


def metadata(connection: Connection, nodes: dict[int, str], cluster: str = "c") -> None:
    """A Metadata v5 exchange in which the broker names its cluster's nodes."""
    asked = connection.ask(3, "Metadata", 5, {"topics": None, "allow_auto_topic_creation": True})
    brokers = [
        {"node_id": node, "host": at.rpartition(":")[0], "port": int(at.rpartition(":")[2]), "rack": None}
        for node, at in nodes.items()
    ]
    body = {"throttle_time_ms": 0, "brokers": brokers, "cluster_id": cluster, "controller_id": 1, "topics": []}
    data = struct.pack(">i", asked.correlation_id) + kshark.encode(3, 5, "response", body)
    asked.answer_packets = connection.tcp.broker(struct.pack(">i", len(data)) + data)


def shows(connection: Connection, name: str, value: int | str, *, group: str = "", read_only: bool = True) -> Asked:
    """A DescribeConfigs exchange that shows a setting of the broker, or of a group."""
    type, owner = (32, group) if group else (4, "1")
    asked = connection.ask(
        32, "DescribeConfigs", 1,
        {"resources": [{"resource_type": type, "resource_name": owner, "configuration_keys": None}],
         "include_synonyms": False},
    )  # fmt: skip
    config = {
        "name": name, "value": str(value), "read_only": read_only, "config_source": 4, "is_sensitive": False,
        "synonyms": [],
    }  # fmt: skip
    result = {"error_code": 0, "error_message": None, "resource_type": type, "resource_name": owner}
    return asked.answered(None, throttle_time_ms=0, results=[{**result, "configs": [config]}])


def sets(
    connection: Connection, name: str, value: str | None, *, group: str = "", error: int = 0, validate: bool = False
) -> Asked:
    """An IncrementalAlterConfigs exchange that sets a value, or removes it (None)."""
    resource = {"resource_type": 32 if group else 4, "resource_name": group or "1"}
    config = {"name": name, "config_operation": int(value is None), "value": value}
    body = {"resources": [{**resource, "configs": [config]}], "validate_only": validate}
    asked = connection.ask(44, "IncrementalAlterConfigs", 0, body)
    results = [{"error_code": error, "error_message": None, **resource}]
    return asked.answered(None, throttle_time_ms=0, responses=results)


def alone(*, release: str = "4.2") -> Conversation:
    """A conversation with the only broker of its cluster: no other one can lead a partition."""
    talk = Conversation(release=release)
    metadata(talk.connection(), {1: BROKER})
    return talk


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def sent(connection: Connection, key: int, version: int, body: bytes, *, correlation_id: int | None = None) -> int:
    """A request with header 1, whatever its body; the packet."""
    connection.correlation_id += 1
    number = connection.correlation_id if correlation_id is None else correlation_id
    return connection.tcp.client(framed(struct.pack(">hhih", key, version, number, 2) + b"c1" + body))[-1]


def replied(connection: Connection, body: bytes, *, correlation_id: int | None = None) -> int:
    """An answer with header 0 to the last request, whatever its body; the packet."""
    number = connection.correlation_id if correlation_id is None else correlation_id
    return connection.tcp.broker(framed(struct.pack(">i", number) + body))[-1]


#: All topics; and the answer without brokers and topics, of Metadata v0.
METADATA, NO_TOPICS, NO_METADATA = 3, struct.pack(">i", 0), bytes(8)


def produced(connection: Connection, records: bytes, *, version: int = 7, acks: int = 1) -> int:
    """A Produce request; the packet."""
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": data}
    if version < 3:
        del body["transactional_id"]
    return sent(connection, 0, version, kshark.encode(0, version, "request", body))


def accepted(connection: Connection, error: int = 0, *, version: int = 7) -> int:
    """The answer to it."""
    partition = {"index": 0, "error_code": error, "base_offset": 0}
    responses = [{"name": "t", "partition_responses": [partition]}]
    return replied(connection, kshark.encode(0, version, "response", {"responses": responses, "throttle_time_ms": 0}))


def refused_version(connection: Connection) -> int:
    """ApiVersions in a version that no broker has, which is answered in version 0; the answer's packet."""
    client = {"client_software_name": "apache-kafka-java", "client_software_version": "9.9.9"}
    sent(connection, 18, 99, b"\0" + kshark.encode(18, 4, "request", client))
    keys = [{"api_key": 18, "min_version": 0, "max_version": 4}]
    return replied(connection, kshark.encode(18, 0, "response", {"error_code": UNSUPPORTED_VERSION, "api_keys": keys}))


def asked_unoffered(connection: Connection) -> int:
    """A Heartbeat, which the brokers of conversations do not offer; the packet."""
    return sent(
        connection, 12, 0, kshark.encode(12, 0, "request", {"group_id": "g", "generation_id": 1, "member_id": "m"})
    )


def shook_hands(connection: Connection, error: int = 0) -> int:
    """SaslHandshake with its answer; the answer's packet."""
    sent(connection, 17, 1, kshark.encode(17, 1, "request", {"mechanism": "PLAIN"}))
    return replied(connection, kshark.encode(17, 1, "response", {"error_code": error, "mechanisms": ["PLAIN"]}))


def authenticated(connection: Connection, error: int = 0) -> int:
    """SaslAuthenticate with its answer; the answer's packet."""
    sent(connection, 36, 1, kshark.encode(36, 1, "request", {"auth_bytes": b"token"}))
    told = {"error_code": error, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
    return replied(connection, kshark.encode(36, 1, "response", told))
