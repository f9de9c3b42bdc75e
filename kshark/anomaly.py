"""The one catalogue of every weird: what a code means, how severe it is, who may be to blame, and why.

Weirds are facts about bytes; rules of the protocol, which are judged, are rows of kshark.analysis.rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["chat", "note", "warn", "error"]
Blame = Literal["client", "broker", "network", "capture", "unknown"]
Group = Literal["capture", "link", "reassembly", "tls", "framing", "exchange", "codec", "records"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A code: stable, upper case. Those that break a rule are named by its row (kshark.analysis.rules)."""

    code: str
    group: Group
    severity: Severity
    blame: tuple[Blame, ...]
    text: str
    reference: str = ""


def _weird(code: str, group: Group, severity: Severity, blame: Blame, text: str, reference: str = "") -> Entry:
    return Entry(code, group, severity, (blame,), text, reference)


_CAPTURE: Final = (
    _weird("CAPTURE_CUT", "capture", "warn", "capture", "The file ends inside a packet or block; everything before it was read.", "pcap file format"),
    _weird("PACKET_LENGTH_INVALID", "capture", "error", "capture", "A packet record claims a length that cannot be; reading stops there.", "pcap file format"),
    _weird("BLOCK_INVALID", "capture", "error", "capture", "A pcapng block contradicts its own length; it was skipped or reading stopped.", "pcapng, section 3"),
    _weird("INTERFACE_UNKNOWN", "capture", "warn", "capture", "A packet names an interface that its section does not describe.", "pcapng, section 4.3"),
    _weird("COMPRESSED_CUT", "capture", "warn", "capture", "The compressed file ends early; what came before was read.", "RFC 1952"),
    _weird("CAPTURE_UNREAD", "capture", "warn", "capture", "Bytes of the file behind the place where reading stopped."),
    _weird("COMPRESSED_INVALID", "capture", "error", "capture", "The compressed data is damaged; what came before was read.", "RFC 1952, RFC 8878"),
    _weird("FRAME_NUMBERS_FORGOTTEN", "capture", "note", "capture", "Files that overlap in too many places; which file an early packet came from is no longer told."),
    _weird("PACKETS_DROPPED", "capture", "warn", "capture", "The kernel or interface dropped packets before they were captured.", "pcapng, section 4.6"),
)
_LINK: Final = (
    _weird("LINK_TYPE_UNKNOWN", "link", "warn", "capture", "Packets of a link layer that is not read: connections may be inside.", "tcpdump.org/linktypes"),
    _weird("PACKET_TOO_SHORT", "link", "warn", "capture", "A packet is shorter than the headers it announces.", "RFC 791, RFC 9293"),
    _weird("HEADER_INVALID", "link", "warn", "network", "An IP or TCP header contradicts itself.", "RFC 791, RFC 9293"),
    _weird("IP_FRAGMENT", "link", "warn", "network", "Fragments of an IP packet that is not whole; its bytes become a gap.", "RFC 791, section 3.2"),
    _weird("HEADERS_LIMIT", "link", "warn", "network", "A packet with more headers, tunnels or tags within each other than the limit."),
    _weird("ENVELOPE_UNREAD", "link", "warn", "capture", "Packets of a tunnel or layer that is not read: connections may be inside."),
    _weird("NOT_TCP", "link", "chat", "capture", "Packets that carry no TCP."),
    _weird("ENDS_FORGOTTEN", "link", "note", "capture", "Very many pairs of address and port; those not seen for long were forgotten, and count as new when they return."),
    _weird("SNAP_LENGTH_CUT", "link", "warn", "capture", "Payload bytes cut off by the snap length; they become a gap.", "pcap file format"),
    _weird("TIME_DISORDER", "link", "note", "capture", "Packet times run backwards; packets of different connections so close to each other have no order."),
)
_STREAM: Final = (
    _weird("STREAM_GAP", "reassembly", "warn", "network", "Bytes of a connection that the capture does not hold.", "RFC 9293"),
    _weird("ACKED_UNSEEN", "reassembly", "note", "capture", "Bytes stand behind the packet that acknowledges them; packets of different connections so close to each other have no order.", "RFC 9293"),
    _weird("OVERLAP_DIFFERS", "reassembly", "warn", "network", "A retransmission carries other bytes than the first one; the first was kept.", "RFC 9293"),
    _weird("DUPLICATE_PACKETS", "reassembly", "note", "capture", "Connections that were captured twice: packets with what their connection had carried before were left out."),
    _weird("FLOWS_FORGOTTEN", "reassembly", "warn", "capture", "Too many connections at once; the longest idle one was forgotten."),
    _weird("TLS_UNREAD", "tls", "note", "capture", "TLS that was not decrypted: a key log file (--tls-keys) or the capture's own secrets (pcapng) do that.", "RFC 9850"),
    _weird("NOT_KAFKA", "framing", "chat", "capture", "A connection carries another protocol; its bytes were counted and skipped."),
    _weird("FOREIGN_PROTOCOL", "framing", "warn", "client", "TLS or HTTP bytes on a connection to a Kafka port."),
    _weird("FRAME_LENGTH_INVALID", "framing", "error", "client", "A length prefix is negative or beyond the limit.", "Kafka: NetworkReceive"),
    _weird("FRAME_TRUNCATED_AT_CLOSE", "framing", "warn", "network", "The connection or the capture ends inside a frame."),
    _weird("UNFINISHED_LIMIT", "framing", "warn", "capture", "Too many bytes of unfinished frames at once; the longest was passed over."),
    _weird("BYTES_SKIPPED", "framing", "warn", "capture", "Bytes passed over until the next message boundary was found."),
    _weird("RESYNC", "framing", "note", "capture", "This message's boundary was found inside the stream, behind a gap or where the capture begins: likely, not certain; no rule takes it as witness."),
    _weird("RESPONSE_UNMATCHED", "exchange", "warn", "broker", "A response whose request the capture does not hold.", "Kafka: NetworkClient"),
    _weird("RESPONSE_OUT_OF_ORDER", "exchange", "warn", "broker", "A response that does not answer the oldest open request of its connection.", "Kafka: InFlightRequests"),
    _weird("REQUEST_UNANSWERED", "exchange", "note", "network", "The connection ended before the answer came."),
    _weird("REQUEST_TIMEOUT_CLOSE", "exchange", "note", "network", "The connection ended 30 seconds or more behind a request without an answer.", "Kafka: NetworkClient"),
    _weird("VERSION_NOT_ADVERTISED", "exchange", "warn", "client", "A version that the broker's answer to ApiVersions does not have; the connection ended before an answer came.", "Kafka: SocketServer"),
    _weird("ACKS0_ANSWERED", "exchange", "error", "broker", "A response to a request that has none (Produce with acks 0).", "Kafka: KafkaApis"),
    _weird("CORRELATION_ID_REUSED", "exchange", "warn", "client", "A correlation id that is still open is used for another request."),
    _weird("IN_FLIGHT_LIMIT", "exchange", "warn", "capture", "Too many requests open on one connection; the oldest was given up."),
    _weird("UNKNOWN_API", "exchange", "warn", "client", "An api key that no Kafka release has."),
    _weird("NO_DISSECTOR", "exchange", "note", "capture", "A known API whose body is not read."),
    _weird("NAMES_LIMIT", "exchange", "note", "capture", "More topic ids than the limit; those beyond it stay without a name."),
    _weird("VERSION_UNKNOWN", "exchange", "warn", "client", "A version newer or older than any known; read as the nearest known one as far as it fits."),
    _weird("APIVERSIONS_FALLBACK", "exchange", "note", "client", "A version of ApiVersions that the broker does not have; the answer is in the lowest.", "KIP-511"),
    _weird("SOFTWARE_NAME_INVALID", "exchange", "warn", "client", "A client's software name or version that brokers refuse.", "KIP-511"),
    _weird("EARLY_ACCESS_SHARE_API", "exchange", "note", "client", "A share API in the version that Kafka 4.0 had for early access; told once a connection.", "KIP-932"),
    _weird("SASL_SEQUENCE", "exchange", "warn", "client", "A request that is not due while a connection is authenticated.", "Kafka: SaslServerAuthenticator"),
    _weird("RAW_TOKEN", "exchange", "chat", "client", "A SASL token without Kafka's header, as after SaslHandshake v0.", "KIP-152"),
)
_CODEC: Final = (
    _weird("TRAILING_BYTES", "codec", "warn", "client", "Bytes are left in the frame behind the body."),
    _weird("BODY_TOO_SHORT", "codec", "error", "client", "The frame ends before the body does."),
    _weird("LENGTH_INVALID", "codec", "error", "client", "A length inside the body is negative where it may not be, or points outside the frame."),
    _weird("NULL_NOT_ALLOWED", "codec", "error", "client", "A null where the schema has none."),
    _weird("VARINT_TOO_LONG", "codec", "error", "client", "A varint longer than its type allows."),
    _weird("TAG_LENGTH_MISMATCH", "codec", "error", "client", "A tagged field's content does not fill its stated length.", "KIP-482"),
    _weird("TAGS_UNSORTED", "codec", "warn", "client", "Tagged fields out of order, or one tag twice.", "KIP-482"),
    _weird("TOO_MANY_ELEMENTS", "codec", "error", "client", "An array announces more elements than the frame can hold."),
    _weird("NOT_UTF8", "codec", "note", "client", "A string whose bytes are no UTF-8; they are shown escaped.", "Kafka protocol guide"),
    _weird("EMBEDDED_INVALID", "codec", "note", "client", "Bytes that should hold a structure of Kafka hold something else, or only its beginning."),
    _weird("EMBEDDED_UNKNOWN", "codec", "note", "broker", "A stored record of a type that no known release writes; its bytes were left as they are."),
    _weird("EMBEDDED_LIMIT", "codec", "note", "capture", "More structures inside the bytes of one message than the limit; those behind it were not opened."),
    _weird("LAYOUT_DRIFT", "codec", "note", "broker", "An older layout of the same version; the length decided.", "KAFKA-18827"),
)
_RECORDS: Final = (
    _weird("BATCH_CRC", "records", "error", "broker", "A record batch's CRC does not match its bytes.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_COUNT_MISMATCH", "records", "error", "client", "A record batch holds another number of records than it says.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_OFFSETS", "records", "error", "broker", "Offsets inside a batch run backwards or beyond its last one.", "Kafka: DefaultRecordBatch"),
    _weird("CODEC_INVALID", "records", "error", "client", "A compression codec that does not exist.", "Kafka: CompressionType"),
    _weird("LEGACY_MAGIC", "records", "note", "client", "A message set of magic 0 or 1.", "KIP-896"),
    _weird("BATCH_LENGTH_INVALID", "records", "error", "client", "A batch length that is smaller than its header or points outside.", "Kafka: DefaultRecordBatch"),
    _weird("DECOMPRESSION_FAILED", "records", "error", "client", "Compressed records that cannot be decompressed."),
    _weird("DECOMPRESSION_LIMIT", "records", "error", "client", "Compressed records that grow beyond the limit for the message's size; they were not opened."),
    _weird("RECORD_INVALID", "records", "error", "client", "A record that contradicts its own length.", "Kafka: DefaultRecord"),
    _weird("RECORDS_LIMIT", "records", "error", "capture", "More batches, records and headers in one message than the limit for its size; those behind it were not opened."),
    _weird("MAGIC_UNKNOWN", "records", "error", "client", "A batch of a magic that does not exist."),
)


CATALOGUE: Final[dict[str, Entry]] = {entry.code: entry for group in (_CAPTURE, _LINK, _STREAM, _CODEC, _RECORDS) for entry in group}
