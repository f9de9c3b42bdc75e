"""The one catalogue of weirds: the meaning of a code, its severity, who may be to blame, and why.

Weirds are facts about bytes. Rules of the protocol, which are judged, are rows of kshark.analysis.rules.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Severity = Literal["chat", "note", "warn", "error"]
Blame = Literal["client", "broker", "network", "capture", "unknown"]
Group = Literal["capture", "link", "reassembly", "proxy", "tls", "framing", "exchange", "codec", "records"]


class Entry(Struct, frozen=True):
    """A code: stable, upper case. A code that breaks a rule is named in the rule's row (kshark.analysis.rules)."""

    code: str
    group: Group
    severity: Severity
    blame: tuple[Blame, ...]
    text: str
    reference: str = ""
    #: Advice in sentences; empty for codes that a rule judges, since the rule has the advice.
    advice: str = ""


def _weird(code: str, group: Group, severity: Severity, blame: Blame, text: str, reference: str = "", advice: str = "") -> Entry:
    return Entry(code, group, severity, (blame,), text, reference, advice)


_CAPTURE: Final = (
    _weird("CAPTURE_CUT", "capture", "warn", "capture", "The file ends inside a packet or block; everything before it was read.", "pcap file format",
        advice="Nothing is wrong if the file was still being written, or tcpdump was killed. To get the rest, end tcpdump with Ctrl-C, or copy the file again."),
    _weird("PACKET_LENGTH_INVALID", "capture", "error", "capture", "A packet record claims an impossible length; reading stops there.", "pcap file format",
        advice="The file is damaged from there on: copy it again, in binary mode."),
    _weird("CAPTURE_DESTROYED", "capture", "error", "capture", "The bytes of the capture were changed on their way into the file; nothing in it was read.", "POSIX: ONLCR",
        advice="Record again without a terminal in between: kubectl exec and docker exec without -t, ssh without -t."),
    _weird("FOREIGN_BYTES", "capture", "warn", "capture", "Bytes of the file that are no part of the capture: text of a terminal or of the recorder, for example. They were skipped, and a packet that they damaged.",
        advice="The recorder's messages went into the same file: keep standard error apart (2>/dev/null instead of 2>&1), or write with -w FILE."),
    _weird("BLOCK_INVALID", "capture", "error", "capture", "A pcapng block contradicts its own length; it was skipped or reading stopped.", "pcapng, section 3",
        advice="The file is damaged there: copy it again, in binary mode."),
    _weird("INTERFACE_UNKNOWN", "capture", "warn", "capture", "A packet names an interface that its section does not describe.", "pcapng, section 4.3",
        advice="The beginning of the file, which describes its interfaces, is missing: use the file as it was written."),
    _weird("COMPRESSED_CUT", "capture", "warn", "capture", "The compressed file ends early; everything before its end was read.", "RFC 1952",
        advice="Copy the file again, or wait until its compression is finished: the missing part contains the other packets."),
    _weird("CAPTURE_UNREAD", "capture", "warn", "capture", "Bytes of the file after the position where reading stopped.",
        advice="Another code of this file gives the reason. Nothing after that position was judged: copy the file again, or capture once more."),
    _weird("COMPRESSED_INVALID", "capture", "error", "capture", "The compressed data is damaged; everything before the damage was read.", "RFC 1952, RFC 8878",
        advice="Copy the file again, in binary mode, and test it: gzip -t, zstd -t."),
    _weird("FRAME_NUMBERS_FORGOTTEN", "capture", "note", "capture", "Files that overlap in too many places; the file of an early packet is no longer known.",
        advice="All packets were judged. Read fewer files at a time if you need the packet numbers of each."),
    _weird("CAPTURES_OVERLAP", "capture", "note", "capture", "Captures of the same time, each with its own clock; packets of different connections that are this close in time have no known order.",
        advice="Capture all interfaces of a host at once (tcpdump -i any). Name the files of several hosts one by one: a file from mergecap does not show that their clocks may differ."),
    _weird("PACKETS_SORTED", "capture", "note", "capture", "Packets that were not in order of time in their file; they were sorted, and are numbered in the order of their times.",
        advice="Nothing: the messages are the same as after reordercap (part of Wireshark). In JSON, frame is the number in the file."),
    _weird("LOG_LINES_UNREADABLE", "capture", "warn", "capture", "Lines of a request log that are no completed request with a time, or do not fit the API; they were skipped.", "Kafka: RequestConvertToJson",
        advice="Nothing if they belong to other loggers. Else check the layout of the log: each line needs a time (%d) and the whole message (%m)."),
    _weird("LOGGED_TIMES", "capture", "note", "capture", "A request log: messages alone, without the network, ends of connections, and records. Requests of different connections that are this close in time have no known order.", "Kafka: RequestChannel.updateRequestMetrics",
        advice="Nothing: what a log cannot show is unknown. Capture packets to see it "
        "(https://github.com/kshark/kshark/blob/main/docs/request-log.md)."),
    _weird("PACKETS_DROPPED", "capture", "warn", "capture", "The kernel or interface dropped packets before they were captured.", "pcapng, section 4.6",
        advice="The dropped packets are missing here too: capture with a larger buffer (tcpdump -B 65536), a narrower filter, or onto a faster disk."),
    _weird("INTERFACE_DOWN", "capture", "note", "capture", "A captured interface was down, or did not exist, for a while.",
        advice="If it was to stay up: look for the cause in the log of the system (journalctl -k). Connections that went on over another interface are missing here."),
)
_LINK: Final = (
    _weird("LINK_TYPE_UNKNOWN", "link", "warn", "capture", "Packets of an unsupported link layer: connections may be inside.", "tcpdump.org/linktypes",
        advice="Capture on another interface: on eth0 itself, or on any. kshark/link/README.md lists what is read."),
    _weird("PACKET_TOO_SHORT", "link", "warn", "capture", "A packet is shorter than the headers it announces.", "RFC 791, RFC 9293",
        advice="Capture whole packets: tcpdump -s 0."),
    _weird("HEADER_INVALID", "link", "warn", "network", "An IP or TCP header contradicts itself.", "RFC 791, RFC 9293",
        advice="A few such packets were damaged in transit. If there are many, the file names a wrong link layer: capture on the interface itself."),
    _weird("IP_FRAGMENT", "link", "warn", "network", "Fragments of an incomplete IP packet; its bytes become a gap.", "RFC 791, section 3.2",
        advice="Capture by host, not by port: only the first fragment of a packet has the ports. Also check why TCP is fragmented at all: the MTU on the path is too small."),
    _weird("HEADERS_LIMIT", "link", "warn", "network", "A packet with more nested headers, tunnels or tags than the limit.",
        advice="Capture inside the tunnels, where packets have fewer headers."),
    _weird("ENVELOPE_UNREAD", "link", "warn", "capture", "Packets of an unsupported tunnel or layer: connections may be inside.",
        advice="Capture where the packets are not encrypted: inside the tunnel, on the host or the pod itself."),
    _weird("NOT_TCP", "link", "chat", "capture", "Packets that carry no TCP.",
        advice="Nothing: Kafka uses TCP. If you expected connections, check the capture filter."),
    _weird("ENDS_FORGOTTEN", "link", "note", "capture", "Very many pairs of address and port; the pairs unseen for longest were forgotten, and count as new when they return.",
        advice="Capture only the brokers' ports (tcpdump 'tcp port 9092'), and check for a port scan."),
    _weird("SNAP_LENGTH_CUT", "link", "warn", "capture", "Payload bytes cut off by the snap length; they become a gap.", "pcap file format",
        advice="Capture whole packets: tcpdump -s 0. Rules can hardly judge a message that is cut."),
    _weird("TIME_DISORDER", "link", "note", "capture", "Packet times run backwards; packets of different connections that are this close in time have no known order.",
        advice="Read captures of several hosts together only if their clocks agree. For one capture, reordercap (part of Wireshark) puts the packets in order."),
    _weird("CLOCK_STEP", "link", "note", "capture", "The capture's clock was stepped: durations across that packet are unknown.", "RFC 7323, section 5.4",
        advice="Let a time service slew the clock of the capturing host (chronyd without makestep), and capture once more if durations matter."),
    _weird("CLOCK_STOPPED", "link", "note", "capture", "Packets without a time, or many in a row with the same: durations to and from them are unknown.",
        advice="Capture with a tool that stores a time for each packet, with a resolution of microseconds."),
    _weird("SILENCE_UNPROVED", "link", "chat", "capture", "A silence of the whole capture that no TCP timestamp proves: a step of the clock would look the same.", "RFC 7323",
        advice="Let the hosts use TCP timestamps (Linux: sysctl net.ipv4.tcp_timestamps=1), or capture more connections."),
    _weird("SILENCE_PROVED", "link", "chat", "capture", "A TCP timestamp agrees with an earlier silence: that time passed.", "RFC 7323, section 5.4",
        advice="Nothing."),
)
_STREAM: Final = (
    _weird("STREAM_GAP", "reassembly", "warn", "network", "Bytes of a connection that are missing in the capture.", "RFC 9293"),
    _weird("ACKED_UNSEEN", "reassembly", "note", "capture", "Bytes come after the packet that acknowledges them; packets of different connections that are this close in time have no known order.", "RFC 9293",
        advice="Capture both directions in one place and with one clock. The order of packets from two taps is right only if their clocks agree."),
    _weird("OVERLAP_DIFFERS", "reassembly", "warn", "network", "A retransmission carries other bytes than the original; the original was kept.", "RFC 9293",
        advice="Check the devices between the two hosts: a host retransmits the same bytes. Other bytes come from a proxy, or from injected packets."),
    _weird("UNACKNOWLEDGED", "reassembly", "chat", "network", "Bytes that were sent again and had no acknowledgement half a second or more after they were sent first.", "RFC 6298",
        advice="Find out where packets of this direction are lost: capture at both hosts. If other connections between them work, the peer's host is at fault."),
    _weird("SYN_UNANSWERED", "reassembly", "chat", "network", "A SYN that was sent again and had no answer half a second or more after it was sent first.", "RFC 6298",
        advice="Check that the broker's host is up, and that no firewall drops packets to its port."),
    _weird("ACKNOWLEDGED_LATE", "reassembly", "chat", "network", "The end of UNACKNOWLEDGED or SYN_UNANSWERED: an acknowledgement.", "RFC 6298",
        advice="Nothing: the connection works again."),
    _weird("WINDOW_CLOSED", "reassembly", "chat", "client", "A receiver that has had no room for a second or longer: its window is zero.", "RFC 9293, section 3.8.6",
        advice="Check the process that receives: its kernel has data that it does not read."),
    _weird("WINDOW_OPENED", "reassembly", "chat", "client", "The end of WINDOW_CLOSED: the receiver has room again.", "RFC 9293, section 3.8.6",
        advice="Nothing: the receiver reads again."),
    _weird("DUPLICATE_PACKETS", "reassembly", "note", "capture", "Connections that were captured twice: the repeated packets were left out.",
        advice="Nothing: each message counts once. Files get smaller if you capture one interface instead of any, or one side of a mirrored link."),
    _weird("FLOWS_FORGOTTEN", "reassembly", "warn", "capture", "Too many connections at once; the longest idle one was forgotten.",
        advice="Capture only the brokers' ports, or a shorter time: a forgotten connection is read as if the capture began in its middle."),
    _weird("PROXY_HEADER_INVALID", "proxy", "warn", "network", "A PROXY header that breaks its format or does not fit its checksum; the client's address in it was not used.", "HAProxy: proxy-protocol.txt",
        advice="Check the load balancer that sends it. The client shown for such a connection is the load balancer."),
    _weird("PROXY_HEADER_REFUSED", "proxy", "warn", "network", "A connection began with a PROXY header, and the broker closed it without an answer.", "HAProxy: proxy-protocol.txt"),
    _weird("TLS_UNREAD", "tls", "note", "capture", "TLS that was not decrypted: this needs a key log file (--tls-keys), or secrets in the capture itself (pcapng).", "RFC 9850",
        advice="Let the client of that connection write a key log (SSLKEYLOGFILE; a JVM needs an agent for it) and pass it with --tls-keys, or capture a listener without TLS (kshark explain tls-keys). A broker's private key does not decrypt modern TLS."),
    _weird("NOT_KAFKA", "framing", "chat", "capture", "A connection carries another protocol; its bytes were counted and skipped.",
        advice="Nothing, if that is right. If it is Kafka, name its port: -d tcp.port==9092,kafka."),
    _weird("TLS_ALERT", "tls", "chat", "unknown", "A TLS alert that ends a handshake, by its name; an encrypted one is known by its size.", "RFC 8446, section 6",
        advice="See the event TLS_HANDSHAKE_FAILED: it says who refused whom, and why."),
    _weird("FOREIGN_PROTOCOL", "framing", "warn", "client", "TLS or HTTP bytes on a connection to a Kafka port."),
    _weird("FRAME_LENGTH_INVALID", "framing", "error", "client", "A length prefix is negative, or longer than usual and no header follows it.", "Kafka: NetworkReceive"),
    _weird("REQUEST_TOO_LONG", "framing", "error", "client", "A connection ended at a request that is longer than its broker accepts.", "Kafka: NetworkReceive; socket.request.max.bytes"),
    _weird("FRAME_TRUNCATED_AT_CLOSE", "framing", "warn", "network", "The connection or the capture ends inside a frame."),
    _weird("UNFINISHED_LIMIT", "framing", "warn", "capture", "Too many bytes wait for the rest of their frame, or for a message boundary; the longest were skipped.",
        advice="Read fewer connections at a time, and check which client begins large messages and does not finish them."),
    _weird("BYTES_SKIPPED", "framing", "warn", "capture", "Bytes skipped until the next message boundary was found.",
        advice="Nothing, if the connection is older than the capture. Otherwise check the report just before: a gap, or a damaged message."),
    _weird("BODY_CUT", "exchange", "warn", "capture", "A message whose end is missing, since the snap length cut it off or a request log does not have it: its head and the fields before were read.", "pcap file format",
        advice="Capture whole packets (tcpdump -s 0): rules that need the cut fields cannot judge."),
    _weird("RESYNC", "framing", "note", "capture", "This message's boundary was found inside the stream, after a gap or at the beginning of the capture: likely, not certain; no rule uses it as evidence.",
        advice="Begin the capture before the clients connect: then all message boundaries are certain, and rules can use the messages."),
    _weird("BODY_NOT_KEPT", "exchange", "note", "capture", "A message that is too long to be collected; only its header was read.",
        advice="Nothing: its size, API, correlation id and answer are right. Rules that need its body are not decided."),
    _weird("RESPONSE_UNMATCHED", "exchange", "warn", "broker", "A response whose request is not in the capture.", "Kafka: NetworkClient"),
    _weird("RESPONSE_OUT_OF_ORDER", "exchange", "warn", "broker", "A response that does not answer the oldest open request of its connection.", "Kafka: InFlightRequests"),
    _weird("REQUEST_UNANSWERED", "exchange", "note", "network", "The connection ended before the answer came."),
    _weird("REQUEST_TIMEOUT_CLOSE", "exchange", "note", "network", "The connection ended 30 seconds or more after a request without an answer.", "Kafka: NetworkClient"),
    _weird("VERSION_NOT_ADVERTISED", "exchange", "warn", "client", "A version that is not in the broker's ApiVersions response; the connection ended before an answer came.", "Kafka: SocketServer"),
    _weird("ACKS0_ANSWERED", "exchange", "error", "broker", "A response to a request that has none (Produce with acks 0).", "Kafka: KafkaApis"),
    _weird("CORRELATION_ID_REUSED", "exchange", "warn", "client", "A correlation id that is still in use is used for another request."),
    _weird("IN_FLIGHT_LIMIT", "exchange", "warn", "capture", "Too many requests are open at once; the oldest of a connection was given up.",
        advice="Check if the capture contains the answers: if only one direction was captured, every request stays open."),
    _weird("UNKNOWN_API", "exchange", "warn", "client", "An api key that no Kafka release has.",
        advice="Check the sender: another protocol, or a vendor's own API, which --dissector can describe. For a newer Kafka use a newer kshark."),
    _weird("NO_DISSECTOR", "exchange", "note", "capture", "A known API whose body kshark cannot decode.",
        advice="Describe the body in a file and pass it with --dissector; dissectors/README.md shows how."),
    _weird("NAMES_LIMIT", "exchange", "note", "capture", "More topic ids than the limit; further ones stay without a name.",
        advice="Nothing: further topics are shown by their ids."),
    _weird("VERSION_UNKNOWN", "exchange", "warn", "client", "A version newer or older than all known ones; decoded as the nearest known version as far as it fits.",
        advice="If the peer is newer, use a newer kshark (kshark explain API lists the known versions). Otherwise the header is damaged, or belongs to another protocol."),
    _weird("APIVERSIONS_FALLBACK", "exchange", "note", "client", "A version of ApiVersions that the broker does not support; the answer uses the lowest version.", "KIP-511"),
    _weird("SOFTWARE_NAME_INVALID", "exchange", "warn", "client", "A client's software name or version that brokers reject.", "KIP-511"),
    _weird("EARLY_ACCESS_SHARE_API", "exchange", "note", "client", "A share API in the early access version of Kafka 4.0; reported once a connection.", "KIP-932"),
    _weird("SASL_SEQUENCE", "exchange", "warn", "client", "A request that is not allowed during the authentication of a connection.", "Kafka: SaslServerAuthenticator"),
    _weird("RAW_TOKEN", "exchange", "chat", "client", "A SASL token without Kafka's header, as after SaslHandshake v0.", "KIP-152",
        advice="Nothing: clients that use SaslHandshake v0 authenticate this way. Newer clients send SaslAuthenticate."),
)
_CODEC: Final = (
    _weird("TRAILING_BYTES", "codec", "warn", "client", "Bytes are left in the frame after the body."),
    _weird("BODY_TOO_SHORT", "codec", "error", "client", "The frame ends before the body does."),
    _weird("LENGTH_INVALID", "codec", "error", "client", "A length inside the body is negative where it may not be, or points outside the frame."),
    _weird("NULL_NOT_ALLOWED", "codec", "error", "client", "A null in a field that is not nullable."),
    _weird("VARINT_TOO_LONG", "codec", "error", "client", "A varint longer than its type allows."),
    _weird("TAG_LENGTH_MISMATCH", "codec", "error", "client", "A tagged field's content does not fill its stated length.", "KIP-482"),
    _weird("TAGS_UNSORTED", "codec", "warn", "client", "Tagged fields out of order, or one tag twice.", "KIP-482"),
    _weird("TAG_OF_OTHER_VERSION", "codec", "warn", "client", "A tagged field that its struct has in other versions only.", "KIP-482"),
    _weird("TOO_MANY_ELEMENTS", "codec", "error", "client", "An array announces more elements than the frame can hold."),
    _weird("NOT_UTF8", "codec", "note", "client", "A string whose bytes are not UTF-8; they are shown escaped.", "Kafka protocol guide",
        advice="Check the writer: Kafka's strings are UTF-8. In the output such bytes are written \\xNN."),
    _weird("EMBEDDED_INVALID", "codec", "note", "client", "Bytes that should contain a Kafka structure contain something else, or only its beginning.",
        advice="Nothing, if clients store their own data there, as some assignors do. Otherwise check the writer."),
    _weird("EMBEDDED_UNKNOWN", "codec", "note", "broker", "A stored record of a type that no known release writes; its bytes were not decoded.",
        advice="Use a newer kshark if the brokers are newer."),
    _weird("EMBEDDED_LIMIT", "codec", "note", "capture", "More structures inside the bytes of one message than the limit; further ones were not opened.",
        advice="Nothing is lost: the bytes themselves are in the output (-T json)."),
    _weird("LAYOUT_DRIFT", "codec", "note", "broker", "An older layout of the same version, recognised by its length.", "KAFKA-18827",
        advice="Nothing: both layouts are read. Other tools may need a newer broker."),
)
_RECORDS: Final = (
    _weird("BATCH_CRC", "records", "error", "broker", "A record batch's CRC does not match its bytes.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_COUNT_MISMATCH", "records", "error", "client", "A record batch contains another number of records than its header states.", "Kafka: DefaultRecordBatch"),
    _weird("BATCH_OFFSETS", "records", "error", "broker", "Offsets inside a batch run backwards or beyond its last one.", "Kafka: DefaultRecordBatch"),
    _weird("CODEC_INVALID", "records", "error", "client", "A compression codec that does not exist.", "Kafka: CompressionType"),
    _weird("LEGACY_MAGIC", "records", "note", "client", "A message set of magic 0 or 1.", "KIP-896"),
    _weird("BATCH_LENGTH_INVALID", "records", "error", "client", "A batch length that is smaller than its header or points outside.", "Kafka: DefaultRecordBatch",
        advice="Compare the writer with the layout of a record batch: its length counts all bytes after the length."),
    _weird("DECOMPRESSION_FAILED", "records", "error", "client", "Compressed records that cannot be decompressed.",
        advice="If the batch's checksum is right, its producer compressed it wrongly, or names another codec than it used; if not, its bytes were changed in transit."),
    _weird("DECOMPRESSION_LIMIT", "records", "error", "client", "Compressed records that grow beyond the limit for the message's size; they were not opened.",
        advice="Check the producer: such records are extremely repetitive, or made to fill a reader's memory."),
    _weird("RECORD_INVALID", "records", "error", "client", "A record that contradicts its own length.", "Kafka: DefaultRecord",
        advice="Compare the writer with the layout of a record. If the batch's checksum is also wrong, its bytes were changed in transit."),
    _weird("RECORDS_LIMIT", "records", "error", "capture", "More batches, records and headers in one message than the limit for its size; further ones were not opened.",
        advice="Check the producer: the message is damaged, or made to cost its readers time."),
    _weird("MAGIC_UNKNOWN", "records", "error", "client", "A batch with a magic that does not exist.",
        advice="Check the writer: batches have magic 0, 1 or 2. The bytes are damaged, or not a record batch."),
    _weird("SEGMENT_CUT", "records", "note", "capture", "A log segment ends inside a batch; everything before it was read.", "Kafka: FileRecords",
        advice="Nothing is wrong if the broker was writing while the file was copied. A broker that starts after a crash cuts such a batch off."),
    _weird("SEGMENT_ZEROS", "records", "note", "capture", "A log segment ends with zeros: space that the broker reserved and has not written.", "Kafka: log.preallocate",
        advice="Nothing is wrong: a broker with log.preallocate reserves the space of a segment when it begins it."),
    _weird("SEGMENT_INVALID", "records", "error", "capture", "Bytes of a log segment that are no record batch; they were skipped up to the next batch, or to the end of the file.", "Kafka: FileRecords",
        advice="Copy the file again, and compare with kafka-dump-log. If the broker's own file is damaged, its disk or file system is at fault."),
    _weird("SNAPSHOT_EPOCH_OLD", "records", "warn", "broker", "A ShareUpdate of another snapshot epoch than that of its share partition's last ShareSnapshot before it in the log.", "KIP-932",
        advice="Readers of the log ignore such an update or apply it to the wrong state. Check if two brokers were leaders of the partition of __share_group_state."),
    _weird("TOMBSTONE_MISSING", "records", "warn", "broker", "A share partition's state begins again in the log without the tombstone that ends the state before.", "KIP-932",
        advice="The group or topic was deleted and its state initialized again, but the log does not say so. Check the share coordinator's log at that time."),
    _weird("STATE_PARTITION_WRONG", "records", "warn", "broker", "A record of __share_group_state is in another partition than the hash of its key says, beside those of the records before.", "Kafka: ShareCoordinatorService",
        advice="Check that the segments are of one cluster. If they are, another coordinator than the one that clients ask has the state: compare the number of partitions of the topic with the brokers' share.coordinator.state.topic.num.partitions."),
)


#: Codes of facts for rules and incidents, which say nothing to people.
FACTS: Final = frozenset(
    {
        "SILENCE_UNPROVED",
        "SILENCE_PROVED",
        "UNACKNOWLEDGED",
        "SYN_UNANSWERED",
        "ACKNOWLEDGED_LATE",
        "WINDOW_CLOSED",
        "WINDOW_OPENED",
        "TLS_ALERT",
    }
)
#: Codes of what a limit of memory gave up: no rule knows what it was.
GIVEN_UP: Final = frozenset({"IN_FLIGHT_LIMIT", "UNFINISHED_LIMIT"})
CATALOGUE: Final[dict[str, Entry]] = {entry.code: entry for group in (_CAPTURE, _LINK, _STREAM, _CODEC, _RECORDS) for entry in group}
