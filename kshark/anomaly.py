"""The one catalogue of every weird: what a code means, how severe it is, who may be to blame, and why.

Weirds are facts about bytes; rules of the protocol, which are judged, are rows of kshark.analysis.rules.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Severity = Literal["chat", "note", "warn", "error"]
Blame = Literal["client", "broker", "network", "capture", "unknown"]
Group = Literal["capture", "link", "reassembly", "tls", "framing", "exchange", "codec", "records"]


class Entry(Struct, frozen=True):
    """A code: stable, upper case. Those that break a rule are named by its row (kshark.analysis.rules)."""

    code: str
    group: Group
    severity: Severity
    blame: tuple[Blame, ...]
    text: str
    reference: str = ""
    #: What to do about it, in sentences; of those that a rule judges that rule says it.
    advice: str = ""


def _weird(code: str, group: Group, severity: Severity, blame: Blame, text: str, reference: str = "", advice: str = "") -> Entry:
    return Entry(code, group, severity, (blame,), text, reference, advice)


_CAPTURE: Final = (
    _weird("CAPTURE_CUT", "capture", "warn", "capture", "The file ends inside a packet or block; everything before it was read.", "pcap file format",
        advice="Nothing is wrong where the file was still being written, or tcpdump was killed. For the rest end tcpdump by Ctrl-C, or copy the file again."),
    _weird("PACKET_LENGTH_INVALID", "capture", "error", "capture", "A packet record claims a length that cannot be; reading stops there.", "pcap file format",
        advice="The file is damaged from there on, or several were put one behind the other: copy it again, in binary mode, and name several files to kshark instead of joining them."),
    _weird("BLOCK_INVALID", "capture", "error", "capture", "A pcapng block contradicts its own length; it was skipped or reading stopped.", "pcapng, section 3",
        advice="The file is damaged there: copy it again, in binary mode."),
    _weird("INTERFACE_UNKNOWN", "capture", "warn", "capture", "A packet names an interface that its section does not describe.", "pcapng, section 4.3",
        advice="The beginning of the file is missing, where its interfaces are described: take the file as it was written."),
    _weird("COMPRESSED_CUT", "capture", "warn", "capture", "The compressed file ends early; what came before was read.", "RFC 1952",
        advice="Copy the file again, or wait until whoever compresses it is done: the other packets are in what is missing."),
    _weird("CAPTURE_UNREAD", "capture", "warn", "capture", "Bytes of the file behind the place where reading stopped.",
        advice="The code beside it says why reading stopped. Nothing behind that place was judged: copy the file again, or capture once more."),
    _weird("COMPRESSED_INVALID", "capture", "error", "capture", "The compressed data is damaged; what came before was read.", "RFC 1952, RFC 8878",
        advice="Copy the file again, in binary mode, and test it: gzip -t, zstd -t."),
    _weird("FRAME_NUMBERS_FORGOTTEN", "capture", "note", "capture", "Files that overlap in too many places; which file an early packet came from is no longer told.",
        advice="Nothing is missing from what was judged. Read fewer files at a time where you need the packet numbers of each."),
    _weird("CAPTURES_OVERLAP", "capture", "note", "capture", "Captures of the same time, each by its own clock; packets of different connections so close to each other have no order.",
        advice="Capture all interfaces of a host at once (tcpdump -i any). Name the files of several hosts one by one: of what mergecap made of them nobody knows that their clocks may differ."),
    _weird("PACKETS_DROPPED", "capture", "warn", "capture", "The kernel or interface dropped packets before they were captured.", "pcapng, section 4.6",
        advice="What was dropped is missing here, too: capture with a larger buffer (tcpdump -B 65536), a narrower filter, or onto a faster disk."),
)
_LINK: Final = (
    _weird("LINK_TYPE_UNKNOWN", "link", "warn", "capture", "Packets of a link layer that is not read: connections may be inside.", "tcpdump.org/linktypes",
        advice="Capture on another interface: on eth0 itself, or on any. kshark/link/README.md lists what is read."),
    _weird("PACKET_TOO_SHORT", "link", "warn", "capture", "A packet is shorter than the headers it announces.", "RFC 791, RFC 9293",
        advice="Capture whole packets: tcpdump -s 0."),
    _weird("HEADER_INVALID", "link", "warn", "network", "An IP or TCP header contradicts itself.", "RFC 791, RFC 9293",
        advice="Few of them were damaged on the way. Where there are many the file names a wrong link layer: capture on the interface itself."),
    _weird("IP_FRAGMENT", "link", "warn", "network", "Fragments of an IP packet that is not whole; its bytes become a gap.", "RFC 791, section 3.2",
        advice="Capture by host, not by port: only the first fragment of a packet has the ports. And see why TCP is cut into fragments at all; the MTU on the way is too small."),
    _weird("HEADERS_LIMIT", "link", "warn", "network", "A packet with more headers, tunnels or tags within each other than the limit.",
        advice="Capture inside the tunnels, where packets have fewer headers."),
    _weird("ENVELOPE_UNREAD", "link", "warn", "capture", "Packets of a tunnel or layer that is not read: connections may be inside.",
        advice="Capture where the packets are in clear: inside the tunnel, on the host or the pod itself."),
    _weird("NOT_TCP", "link", "chat", "capture", "Packets that carry no TCP.",
        advice="Nothing: Kafka is spoken over TCP. Where you expected connections look at the capture filter."),
    _weird("ENDS_FORGOTTEN", "link", "note", "capture", "Very many pairs of address and port; those not seen for long were forgotten, and count as new when they return.",
        advice="Capture only the brokers' ports (tcpdump 'tcp port 9092'), and see whether somebody scans ports."),
    _weird("SNAP_LENGTH_CUT", "link", "warn", "capture", "Payload bytes cut off by the snap length; they become a gap.", "pcap file format",
        advice="Capture whole packets: tcpdump -s 0. Of a message that is cut no rule can say much."),
    _weird("TIME_DISORDER", "link", "note", "capture", "Packet times run backwards; packets of different connections so close to each other have no order.",
        advice="Read captures of several hosts together only if their clocks agree. Of one capture reordercap, which comes with Wireshark, puts the packets in order."),
)
_STREAM: Final = (
    _weird("STREAM_GAP", "reassembly", "warn", "network", "Bytes of a connection that the capture does not hold.", "RFC 9293"),
    _weird("ACKED_UNSEEN", "reassembly", "note", "capture", "Bytes stand behind the packet that acknowledges them; packets of different connections so close to each other have no order.", "RFC 9293",
        advice="Capture both directions in one place and by one clock. The order of two taps is right only if their clocks are."),
    _weird("OVERLAP_DIFFERS", "reassembly", "warn", "network", "A retransmission carries other bytes than the first one; the first was kept.", "RFC 9293",
        advice="Look at what stands between the two: hosts send the same bytes again. Others come from a proxy, or from somebody who puts packets in."),
    _weird("DUPLICATE_PACKETS", "reassembly", "note", "capture", "Connections that were captured twice: packets with what their connection had carried before were left out.",
        advice="Nothing: each message counts once. Files get smaller where one interface is captured instead of any, or one side of a mirrored link."),
    _weird("FLOWS_FORGOTTEN", "reassembly", "warn", "capture", "Too many connections at once; the longest idle one was forgotten.",
        advice="Capture only the brokers' ports, or a shorter time: a connection that was forgotten is read on as if it began in the middle."),
    _weird("TLS_UNREAD", "tls", "note", "capture", "TLS that was not decrypted: it takes a key log file (--tls-keys), or secrets in the capture itself (pcapng).", "RFC 9850",
        advice="Have a client of that connection write a key log (SSLKEYLOGFILE; a JVM needs an agent for it) and name it by --tls-keys, or capture a listener without TLS. A broker's private key does not decrypt today's TLS."),
    _weird("NOT_KAFKA", "framing", "chat", "capture", "A connection carries another protocol; its bytes were counted and skipped.",
        advice="Nothing, if that is right. If it is Kafka all the same, name its port: -d tcp.port==9092,kafka."),
    _weird("FOREIGN_PROTOCOL", "framing", "warn", "client", "TLS or HTTP bytes on a connection to a Kafka port."),
    _weird("FRAME_LENGTH_INVALID", "framing", "error", "client", "A length prefix is negative or beyond the limit.", "Kafka: NetworkReceive"),
    _weird("FRAME_TRUNCATED_AT_CLOSE", "framing", "warn", "network", "The connection or the capture ends inside a frame."),
    _weird("UNFINISHED_LIMIT", "framing", "warn", "capture", "Too many bytes of unfinished frames at once; the longest was passed over.",
        advice="Read fewer connections at a time, and see who begins large messages and does not end them."),
    _weird("BYTES_SKIPPED", "framing", "warn", "capture", "Bytes passed over until the next message boundary was found.",
        advice="Nothing, where the connection is older than the capture. Within one look at what is told just before: a gap, or a message that is damaged."),
    _weird("RESYNC", "framing", "note", "capture", "This message's boundary was found inside the stream, behind a gap or where the capture begins: likely, not certain; no rule takes it as witness.",
        advice="Begin the capture before the clients connect: messages whose boundaries were seen from the beginning are witnesses."),
    _weird("RESPONSE_UNMATCHED", "exchange", "warn", "broker", "A response whose request the capture does not hold.", "Kafka: NetworkClient"),
    _weird("RESPONSE_OUT_OF_ORDER", "exchange", "warn", "broker", "A response that does not answer the oldest open request of its connection.", "Kafka: InFlightRequests"),
    _weird("REQUEST_UNANSWERED", "exchange", "note", "network", "The connection ended before the answer came."),
    _weird("REQUEST_TIMEOUT_CLOSE", "exchange", "note", "network", "The connection ended 30 seconds or more behind a request without an answer.", "Kafka: NetworkClient"),
    _weird("VERSION_NOT_ADVERTISED", "exchange", "warn", "client", "A version that the broker's answer to ApiVersions does not have; the connection ended before an answer came.", "Kafka: SocketServer"),
    _weird("ACKS0_ANSWERED", "exchange", "error", "broker", "A response to a request that has none (Produce with acks 0).", "Kafka: KafkaApis"),
    _weird("CORRELATION_ID_REUSED", "exchange", "warn", "client", "A correlation id that is still open is used for another request."),
    _weird("IN_FLIGHT_LIMIT", "exchange", "warn", "capture", "Too many requests open on one connection; the oldest was given up.",
        advice="See whether the capture holds the answers at all: where only one direction was captured every request stays open."),
    _weird("UNKNOWN_API", "exchange", "warn", "client", "An api key that no Kafka release has.",
        advice="See who sends it: another protocol, or a vendor's own API, which --dissector can describe. For a newer Kafka take a newer kshark."),
    _weird("NO_DISSECTOR", "exchange", "note", "capture", "A known API whose body is not read.",
        advice="Describe the body in a file of your own and name it by --dissector; dissectors/README.md shows how."),
    _weird("NAMES_LIMIT", "exchange", "note", "capture", "More topic ids than the limit; those beyond it stay without a name.",
        advice="Nothing: the topics beyond it are shown by their ids."),
    _weird("VERSION_UNKNOWN", "exchange", "warn", "client", "A version newer or older than any known; read as the nearest known one as far as it fits.",
        advice="If the peer is newer take a newer kshark (kshark explain API lists the versions that it knows). Else something damages the header, or it is another protocol's."),
    _weird("APIVERSIONS_FALLBACK", "exchange", "note", "client", "A version of ApiVersions that the broker does not have; the answer is in the lowest.", "KIP-511"),
    _weird("SOFTWARE_NAME_INVALID", "exchange", "warn", "client", "A client's software name or version that brokers refuse.", "KIP-511"),
    _weird("EARLY_ACCESS_SHARE_API", "exchange", "note", "client", "A share API in the version that Kafka 4.0 had for early access; told once a connection.", "KIP-932"),
    _weird("SASL_SEQUENCE", "exchange", "warn", "client", "A request that is not due while a connection is authenticated.", "Kafka: SaslServerAuthenticator"),
    _weird("RAW_TOKEN", "exchange", "chat", "client", "A SASL token without Kafka's header, as after SaslHandshake v0.", "KIP-152",
        advice="Nothing: clients that use SaslHandshake v0 authenticate like this. Newer ones send SaslAuthenticate."),
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
    _weird("NOT_UTF8", "codec", "note", "client", "A string whose bytes are no UTF-8; they are shown escaped.", "Kafka protocol guide",
        advice="See who wrote it: Kafka's strings are UTF-8. In the output such bytes are written \\xNN."),
    _weird("EMBEDDED_INVALID", "codec", "note", "client", "Bytes that should hold a structure of Kafka hold something else, or only its beginning.",
        advice="Nothing, where clients keep something of their own there, as some assignors do. Else see who wrote it."),
    _weird("EMBEDDED_UNKNOWN", "codec", "note", "broker", "A stored record of a type that no known release writes; its bytes were left as they are.",
        advice="Take a newer kshark, if the brokers are newer."),
    _weird("EMBEDDED_LIMIT", "codec", "note", "capture", "More structures inside the bytes of one message than the limit; those behind it were not opened.",
        advice="Nothing is lost: the bytes themselves are in the output (-T json)."),
    _weird("LAYOUT_DRIFT", "codec", "note", "broker", "An older layout of the same version; the length decided.", "KAFKA-18827",
        advice="Nothing: both layouts are read. Other tools may need a newer broker."),
)
_RECORDS: Final = (
    _weird("BATCH_CRC", "records", "error", "broker", "A record batch's CRC does not match its bytes.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_COUNT_MISMATCH", "records", "error", "client", "A record batch holds another number of records than it says.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_OFFSETS", "records", "error", "broker", "Offsets inside a batch run backwards or beyond its last one.", "Kafka: DefaultRecordBatch"),
    _weird("CODEC_INVALID", "records", "error", "client", "A compression codec that does not exist.", "Kafka: CompressionType"),
    _weird("LEGACY_MAGIC", "records", "note", "client", "A message set of magic 0 or 1.", "KIP-896"),
    _weird("BATCH_LENGTH_INVALID", "records", "error", "client", "A batch length that is smaller than its header or points outside.", "Kafka: DefaultRecordBatch",
        advice="Compare the writer with the layout of a record batch: its length counts all bytes behind the length."),
    _weird("DECOMPRESSION_FAILED", "records", "error", "client", "Compressed records that cannot be decompressed.",
        advice="If the batch's checksum is right its producer compressed it wrongly, or names another codec than it used; if not, its bytes were changed on the way."),
    _weird("DECOMPRESSION_LIMIT", "records", "error", "client", "Compressed records that grow beyond the limit for the message's size; they were not opened.",
        advice="See who produced it: records that are so much larger than their compressed bytes are extremely repetitive, or made to fill a reader's memory."),
    _weird("RECORD_INVALID", "records", "error", "client", "A record that contradicts its own length.", "Kafka: DefaultRecord",
        advice="Compare the writer with the layout of a record. If the batch's checksum is wrong, too, its bytes were changed on the way."),
    _weird("RECORDS_LIMIT", "records", "error", "capture", "More batches, records and headers in one message than the limit for its size; those behind it were not opened.",
        advice="See who produced it: it is damaged, or made to cost its readers time."),
    _weird("MAGIC_UNKNOWN", "records", "error", "client", "A batch of a magic that does not exist.",
        advice="See who wrote it: batches have magic 0, 1 or 2. What is there is damaged, or no record batch."),
)


CATALOGUE: Final[dict[str, Entry]] = {entry.code: entry for group in (_CAPTURE, _LINK, _STREAM, _CODEC, _RECORDS) for entry in group}
