"""The tables and their columns, as data: the contract between `kshark export`, Spark jobs and whoever reads the Parquet
files.

Types are written as Spark SQL writes them (`bigint`, `array<struct<topic_id: string, partition: int>>`), so that a
schema is made from the same text on every engine. Offsets are Kafka's, both ends of a range included; times end in
their unit; null is "does not apply here"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` in Spark SQL's words, `about` for people."""

    name: str
    type: str
    about: str


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Table:
    """One folder of Parquet files; `version` counts up when a column comes, goes or changes its meaning."""

    name: str
    rows: str
    columns: tuple[Column, ...]
    version: int = 1

    @property
    def ddl(self) -> str:
        """The schema as Spark SQL takes it, descriptions included."""
        return ", ".join(f"{column.name} {column.type} COMMENT {quoted(column.about)}" for column in self.columns)


_PARTITIONS: Final = "array<struct<topic_id: string, partition: int>>"
_BATCHES: Final = "array<struct<first_offset: bigint, last_offset: bigint, delivery_state: int, delivery_count: int>>"
_WITNESS: Final = (
    "array<struct<flow: bigint, correlation_id: int, request_packet: bigint, response_packet: bigint, "
    "packet: bigint, event: string>>"
)
_HEADERS: Final = "array<struct<key: string, value: binary>>"

COMMON: Final = (
    Column("capture", "string", "name of the capture: its file, or several files read as one"),
    Column("flow_id", "string", "the TCP connection: capture name and number of its first packet there"),
    Column("packet", "bigint", "packet with which the message was complete, from 1 over the capture"),
    Column("broker", "string", "address:port of the connection's broker"),
    Column("client", "string", "address:port of the connection's client"),
    Column("ts", "timestamp", "time of the packet, UTC, in microseconds"),
    Column("ts_ns", "bigint", "the same in nanoseconds since 1970"),
    Column(
        "exchange",
        "bigint",
        "packet of the request (of an orphan: the answer): with capture and flow_id it joins all tables; null: of no "
        "exchange",
    ),
)
_GROUP: Final = Column("group_id", "string", "group, by its name")
_MEMBER: Final = (_GROUP, Column("member_id", "string", "member of the group"))
_API: Final = Column("api", "string", "Kafka's name of the API, as in ShareFetch")
_SESSION_KEY: Final = Column("session_key", "bigint", "hash of broker, group and member")
_SESSION: Final = Column("session", "int", "number of the share session, from 1 for each session_key")
_CORRELATION: Final = Column(
    "correlation_id", "int", "of the exchange; tells those apart whose requests came in one packet"
)
_TOPIC: Final = (
    Column("topic_id", "string", "Kafka's 22 characters"),
    Column("topic", "string", "its name, where the capture told it before"),
    Column("partition", "int", "of the topic, by its number"),
)
_RANGE: Final = (
    Column("first_offset", "bigint", "of the range"),
    Column("last_offset", "bigint", "of the range, included"),
)


def _table(name: str, rows: str, *columns: Column, version: int = 1) -> Table:
    return Table(name, rows, (*COMMON, *columns), version)


_EXCHANGES: Final = _table(
    "exchanges",
    "request with its response, or either alone",
    Column("api_key", "smallint", "number of the API"),
    _API,
    Column("api_version", "smallint", "version of the API in which both are written"),
    Column("correlation_id", "int", "that the client gave the request and the response repeats"),
    Column("client_id", "string", "name that the client gave itself"),
    Column("request_packet", "bigint", "last packet of the request"),
    Column("response_packet", "bigint", "last packet of the response"),
    Column("request_ts_ns", "bigint", "time of the request's last packet, in nanoseconds since 1970"),
    Column("response_ts_ns", "bigint", "time of the response's last packet, in nanoseconds since 1970"),
    Column("latency_ns", "bigint", "from the request's last byte to the response's first"),
    Column("request_bytes", "int", "without the length prefix"),
    Column("response_bytes", "int", "without the length prefix"),
    Column("outcome", "string", "answered, unanswered, one_way, orphan"),
    Column("error_code", "smallint", "of the response as a whole"),
    Column(
        "error_codes",
        "array<smallint>",
        "of the response, at any depth, without those that are 0; null: it has no other",
    ),
    Column("throttle_time_ms", "int", "for which the broker held the client back"),
    *_MEMBER,
    Column("request_json", "string", "body; records as with --no-records"),
    Column("response_json", "string", "body; records as with --no-records, those of ShareFetch with their spans"),
    Column("request_first_packet", "bigint", "where it began, when more than one packet carried it"),
    Column("response_first_packet", "bigint", "where it began, when more than one packet carried it"),
    Column("request_weird", "array<string>", "catalogue codes that touch the request"),
    Column("response_weird", "array<string>", "catalogue codes that touch the response"),
    Column("request_detail", "string", "what exactly was seen where the request has codes"),
    Column("response_detail", "string", "what exactly was seen where the response has codes"),
    Column("request_position", "bigint", "place among the events of its flow"),
    Column("response_position", "bigint", "place among the events of its flow"),
    Column("position", "bigint", "place at which the exchange was complete or given up, among the events of its flow"),
    Column("given_up_packet", "bigint", "with which it became clear that no answer comes"),
    Column("after_request_packet", "bigint", "of an orphan: the flow's last request before it"),
    version=2,
)

_SHARE_REQUESTS: Final = _table(
    "share_requests",
    "ShareFetch or ShareAcknowledge",
    _CORRELATION,
    _API,
    Column("api_version", "smallint", "version of the API"),
    *_MEMBER,
    _SESSION_KEY,
    Column("epoch", "int", "0 opens a share session, -1 closes it"),
    Column(
        "previous_epoch",
        "int",
        "of the member's request before it on the connection; null: none, or packets do not tell the order",
    ),
    Column("outcome", "string", "answered, unanswered"),
    Column("error_code", "smallint", "of the response as a whole"),
    Column("max_wait_ms", "int", "how long the broker may wait for records"),
    Column("max_records", "int", "how many records are wanted at most"),
    Column(
        "acquire_mode",
        "smallint",
        "0: batches are handed out whole, also beyond that; 1: never more records (KIP-1206)",
    ),
    Column("renew", "boolean", "the request says that it renews acquisition locks"),
    Column("partitions", _PARTITIONS, "listed in the request"),
    Column("repeats", "boolean", "lists a partition twice"),
    Column("only_lists", "boolean", "lists a partition without acknowledging records of it"),
    Column("lists_new", "boolean", "a fetch that lists a partition which none before it on the connection listed"),
    Column(
        "acknowledges_new",
        "boolean",
        "a fetch that acknowledges records of a partition which none before it on the connection listed",
    ),
    Column("forgotten", _PARTITIONS, "taken out of the session"),
    Column(
        "failed",
        "boolean",
        "the answer has an error for a partition, or nothing for one whose records were acknowledged",
    ),
    Column("latency_ns", "bigint", "from the request's last byte to the response's first"),
    version=3,
)

_ACQUIRED: Final = _table(
    "acquired",
    "range of records acquired by a ShareFetch",
    _CORRELATION,
    *_MEMBER,
    *_TOPIC,
    *_RANGE,
    Column("delivery_count", "int", "how often these records were handed out, this time included"),
    Column("lock_timeout_ms", "int", "after which the records are available again"),
    Column("lacking", "bigint", "offsets of the range for which the answer has no record; null: not known"),
    Column("misplaced", "boolean", "ends before it begins, or does not begin behind the partition's range before it"),
    version=2,
)

_ACKNOWLEDGEMENTS: Final = _table(
    "acknowledgements",
    "acknowledgement batch of one partition",
    _CORRELATION,
    *_MEMBER,
    *_TOPIC,
    *_RANGE,
    Column(
        "types",
        "array<int>",
        "0 gap, 1 accept, 2 release, 3 reject, 4 renew: one for the range, or one for each offset",
    ),
    Column("piggybacked", "boolean", "came with a ShareFetch"),
    Column("error_code", "smallint", "of the partition in the response; null: the response does not name it"),
)

_SESSIONS: Final = _table(
    "sessions",
    "share session (kshark sessions); packet, time and connection are those of its first request",
    *_MEMBER,
    _SESSION_KEY,
    _SESSION,
    Column("opened_packet", "bigint", "of the answer that accepted epoch 0; null: not seen"),
    Column("opened_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970"),
    Column(
        "closed_packet",
        "bigint",
        "with which it ended, or was last known to be there; null: there was no session at all",
    ),
    Column("closed_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970"),
    Column(
        "ended",
        "string",
        "final_epoch, connection_closed, reopened, broker_restart, evicted; open: not as far as the capture shows",
    ),
    Column("first_epoch", "int", "of its first request"),
    Column("last_epoch", "int", "of its last request, refused or not; -1: it was closed"),
    Column("requests", "bigint", "ShareFetch and ShareAcknowledge, refused ones too"),
    Column("accepted", "bigint", "requests without an error"),
    Column("rejected", "array<struct<error_code: smallint, requests: bigint>>", "requests with an error, by its code"),
    Column("connections", "int", "how many its requests came on"),
)

_STEPS: Final = _table(
    "steps",
    "ShareFetch or ShareAcknowledge as its session took it (kshark sessions -V)",
    _CORRELATION,
    _API,
    *_MEMBER,
    _SESSION_KEY,
    _SESSION,
    Column("epoch", "int", "0 opens a share session, -1 closes it"),
    Column("expected", "array<int>", "what the broker may have expected, 0: there was no session; null: not known"),
    Column("error_code", "smallint", "of the response as a whole"),
    Column(
        "outcome",
        "string",
        "opened, reopened, advanced, closed, overtaken, not found, wrong epoch, refused, unanswered",
    ),
    Column("cause", "string", "why it was refused with 122 or 123, as in its finding"),
)

_HEARTBEATS: Final = _table(
    "heartbeats",
    "heartbeat of a member of a group",
    _CORRELATION,
    Column("group_type", "string", "share, consumer, classic"),
    *_MEMBER,
    Column("member_epoch", "int", "as sent; a classic group's generation"),
    Column("response_member_epoch", "int", "as received"),
    Column("outcome", "string", "answered, unanswered"),
    Column("error_code", "smallint", "of the response as a whole"),
    Column("interval_ms", "int", "until the next heartbeat is due"),
    Column("subscribed", "array<string>", "topic names; null: unchanged"),
    Column("assignment", _PARTITIONS, "null: unchanged"),
)

_SHARE_STATE: Final = _table(
    "share_state",
    "partition of a request to the share coordinator (83 to 87)",
    _CORRELATION,
    Column("operation", "string", "initialize, read, write, delete, read_summary"),
    _GROUP,
    Column("topic_id", "string", "Kafka's 22 characters"),
    Column("partition", "int", "of the topic, by its number"),
    Column("state_epoch", "int", "counts the times that the partition was initialized"),
    Column("leader_epoch", "int", "of the partition's leader, who asks"),
    Column("start_offset", "bigint", "before it nothing is delivered any more"),
    Column(
        "delivery_complete_count", "int", "offsets from start_offset on that need no further delivery; -1: not known"
    ),
    Column("batches", _BATCHES, "written or read"),
    Column("error_code", "smallint", "of the partition in the response"),
)

_RECORD_BATCHES: Final = _table(
    "record_batches",
    "record batch that was produced or fetched",
    _CORRELATION,
    _API,
    *_TOPIC,
    Column("base_offset", "bigint", "offset of the first record"),
    Column("last_offset_delta", "int", "offset of the last record less base_offset"),
    Column("count", "int", "records"),
    Column("magic", "int", "version of the format: 0 and 1 are message sets, 2 is a record batch"),
    Column("codec", "string", "of the compression"),
    Column("size_bytes", "int", "on the wire"),
    Column("crc_ok", "boolean", "the checksum is that of the bytes; null: the batch cannot be read so far"),
    Column("producer_id", "bigint", "-1: the producer is not idempotent"),
    Column("producer_epoch", "smallint", "-1: the producer is not idempotent"),
    Column("base_sequence", "int", "of the first record, by its producer's count; -1: not idempotent"),
    Column("transactional", "boolean", "part of a transaction"),
    Column("control", "boolean", "holds markers of transactions and no records of applications"),
    Column("timestamp_type", "string", "who set the times"),
    Column("base_timestamp", "bigint", "milliseconds since 1970"),
    Column("max_timestamp", "bigint", "milliseconds since 1970"),
)

_RECORDS: Final = _table(
    "records",
    "record (with --records)",
    _CORRELATION,
    *_TOPIC,
    Column("offset", "bigint", "of the record; in a Produce request counted from 0"),
    Column("timestamp", "bigint", "milliseconds since 1970"),
    Column("key", "binary", "bytes; null: none, or left out (--no-payload)"),
    Column("value", "binary", "bytes; null: none (a tombstone), or left out"),
    Column("headers", _HEADERS, "names and values, in their order; values may be left out"),
    Column("key_size", "int", "bytes; null: no key"),
    Column("value_size", "int", "bytes; null: no value (a tombstone)"),
)

_FLOWS: Final = _table(
    "flows",
    "TCP connection; packet and time are those of its first packet",
    Column("node_id", "int", "of the broker, where the capture told it"),
    Column("listener", "string", "the broker's advertised host:port, where the capture told it"),
    Column("software_name", "string", "of the client"),
    Column("software_version", "string", "of the client"),
    Column("service", "string", "kafka, tls, http, other, unknown"),
    Column("told", "boolean", "which end is the client was told by content"),
    Column("opened_by", "string", "client or broker: who sent the SYN; null: the connection is older than the capture"),
    Column("half_closed_packet", "bigint", "of the first FIN"),
    Column("half_closed_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970"),
    Column("half_closed_by", "string", "client or broker"),
    Column("half_closed_position", "bigint", "its place among the events of the flow"),
    Column("first_request_packet", "bigint", "last packet of the first request"),
    Column("last_request_packet", "bigint", "last packet of the last request"),
    Column("first_response_packet", "bigint", "of one whose request is known"),
    Column("closed_packet", "bigint", "with which the connection ended"),
    Column("closed_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970"),
    Column("closed_by", "string", "client or broker: who sent the first FIN or the RST"),
    Column("ended", "string", "fin, rst, reused (new SYN on the same ports), forgotten, capture (with the capture)"),
    Column("last_packet", "bigint", "of the connection"),
    Column("last_ts_ns", "bigint", "time of that packet, in nanoseconds since 1970"),
    Column("client_bytes", "bigint", "payload from the client, retransmissions not counted twice"),
    Column("broker_bytes", "bigint", "payload from the broker"),
    Column("gaps", "int", "holes in either direction"),
    Column(
        "late_positions",
        "array<bigint>",
        "of events of the flow: from each on, they were known with the next packet of late_packets",
    ),
    Column("late_packets", "array<bigint>", "with which they were known at the earliest: there they stand in time"),
    version=2,
)

_WEIRDS: Final = _table(
    "weirds",
    "a weird is a fact about these bytes (inside record batches: with --records)",
    Column("stage", "string", "who saw it"),
    Column("code", "string", "of the catalogue (kshark explain CODE)"),
    Column("detail", "string", "what exactly was seen"),
    Column(
        "kind",
        "string",
        "gap: a hole in the bytes; message: it touches the message with this correlation id; event: any other",
    ),
    Column("direction", "string", "client or broker: who sent the bytes"),
    Column("first_packet", "bigint", "where it began; of a gap: the last packet before it"),
    Column("last_packet", "bigint", "of a gap: the packet with which it was given up"),
    Column("size_bytes", "bigint", "-1: unknown"),
    Column("correlation_id", "int", "of the message that it touches"),
    Column("position", "bigint", "place among the events of its flow"),
    Column("times", "bigint", "how often it was seen: an event may stand for many"),
)

_FINDINGS: Final = _table(
    "findings",
    "finding (kshark check)",
    Column("code", "string", "of the catalogue (kshark explain CODE)"),
    Column("rule", "int", "number in the rule catalogue"),
    Column("severity", "string", "error, warn, note"),
    Column("verdict", "string", "violation, unknown, note"),
    Column("blame", "string", "client, broker, network, capture, unknown"),
    Column("flow", "bigint", "number of the connection, in order of first packet"),
    *_MEMBER,
    Column("topic_id", "string", "of the partition it is about"),
    Column("partition", "int", "it is about"),
    Column("cause", "string", "of a refused epoch"),
    Column("witness", _WITNESS, "exchanges that the finding rests on"),
    Column("argument", "string", "the evidence as a sentence"),
    Column("unknown_because", "string", "why the capture proves nothing (kshark explain REASON)"),
    Column("client_id", "string", "name that the client gave itself"),
    Column("software", "string", "of the client"),
    _CORRELATION,
)

_FAULTS: Final = _table(
    "faults",
    "capture that could not be read: its other rows are those of a later export; of no packet and no time",
    Column(
        "code",
        "string",
        "vanished, changed (it was another file in the end), damaged, no_capture, unreadable (it was refused)",
    ),
    Column("stage", "string", "what was done with it: hash (to know it again), index (Spark: to share it out), read"),
    Column("detail", "string", "what was said, with the file's name"),
)

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        _EXCHANGES,
        _SHARE_REQUESTS,
        _ACQUIRED,
        _ACKNOWLEDGEMENTS,
        _SESSIONS,
        _STEPS,
        _HEARTBEATS,
        _SHARE_STATE,
        _RECORD_BATCHES,
        _RECORDS,
        _FLOWS,
        _WEIRDS,
        _FINDINGS,
        _FAULTS,
    )
}
