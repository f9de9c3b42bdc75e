"""The one list of limits, for every table, buffer and length that input could grow. Reaching one is reported, never
silent."""

from typing import Final

#: Bytes of a capture file that make one PacketBatch. 1 MB measured faster than 4 MB, with half the memory.
BATCH_BYTES: Final = 1 << 20
#: Of small packets a batch has about so many: connections that all begin in one are held beside those that are
#: forgotten after it.
BATCH_PACKETS: Final = 6_000
#: Largest captured length a packet record may claim (Wireshark's WTAP_MAX_PACKET_SIZE_STANDARD is 256 KiB; offloads
#: give more).
PACKET_BYTES: Final = 1 << 24
#: Largest pcapng block.
BLOCK_BYTES: Final = 1 << 25
#: Interfaces that one section of a pcapng file may describe.
INTERFACES: Final = 65_536
#: Runs of packets from one file, in a merge of overlapping files, for which file and frame are remembered.
NUMBERING_RUNS: Final = 1 << 20
#: How far the clocks of two captures may be apart, where these lie beside each other for so many nanoseconds (NTP keeps
#: hosts closer).
CLOCKS_NS: Final = 500_000_000
#: Pairs of ends (address and port) that are remembered before those not seen for long are forgotten; twice as many at
#: most are held.
PAIRS: Final = 200_000
#: Headers of one packet, tunnels and tags within each other included.
HEADERS: Final = 64
#: Of IP packets that come in fragments: bytes and pieces held, and how many nanoseconds one waits for the rest (RFC
#: 791: 15 s, but identifications come again much sooner: RFC 4963).
FRAGMENT_BYTES: Final = 4 << 20
FRAGMENTS: Final = 8_192
FRAGMENT_NS: Final = 5_000_000_000
#: Kinds of packets without TCP that are told apart.
PACKET_KINDS: Final = 256
#: TCP connections whose state is held at the same time, 4 kB each; beyond it those idle for longest are forgotten.
#: The batch that goes beyond it may open 15,000 more: 25,000 would take 220 MB.
FLOWS: Final = 20_000
#: Of connections that were forgotten, those of which it is remembered where they stood, 34 bytes each.
REMEMBERED_FLOWS: Final = 200_000
#: TCP connections whose packets are measured and that are listed by themselves, up to 15 kB each; the others are
#: counted.
MEASURED_FLOWS: Final = 10_000
#: Of a direction that is measured: holes that may be filled, and the last segments, by which a copy is told from what
#: was sent again.
MEASURED_HOLES: Final = 16
MEASURED_SEGMENTS: Final = 16
#: What a segment held out of order takes beside its payload; payload and this are counted against the next two limits.
LATE_SEGMENT_BYTES: Final = 256
#: Bytes held out of order for one direction until the hole before them is given up as a Gap.
REORDER_BYTES: Final = 4 << 20
#: The same for all connections together; beyond it the holes with most behind them are given up.
LATE_BYTES: Final = 32 << 20
#: A hole is given up when the peer has acknowledged past it and so many segments have come after it.
REORDER_SEGMENTS: Final = 64
#: No message is held longer than this for what other connections may still bring, in nanoseconds of packet time.
HELD_NS: Final = 200_000_000
#: A hole is also given up so long after that acknowledgement; one that nobody acknowledges holds other connections no
#: longer than this.
REORDER_NS: Final = HELD_NS // 2
#: Connections whose TLS secrets are remembered, 500 bytes each; of more the first ones are forgotten.
TLS_KEYS: Final = 100_000
#: Bytes of secrets that one pcapng file may bring before a packet.
TLS_SECRETS_BYTES: Final = 32 << 20
#: The longest ClientHello and ServerHello.
TLS_HELLO_BYTES: Final = 64 << 10
#: Bytes of a TLS connection that wait for its handshake to be known, or for the rest of a record; and of all
#: connections together.
TLS_WAITING_BYTES: Final = 256 << 10
TLS_HELD_BYTES: Final = 32 << 20
#: Records of 0-RTT data that are passed over where they cannot be decrypted.
TLS_EARLY_RECORDS: Final = 1_000
#: Behind a hole: so many records may have been lost in it, and with keys that come next so many; how often one
#: direction is tried in all, to which each record that is opened adds one.
TLS_LOST_RECORDS: Final = 4_096
TLS_FIRST_RECORDS: Final = 64
TLS_TRIES: Final = 20_000
#: `socket.request.max.bytes` of a broker by default: the longest request frame. Kafka: SocketServerConfigs.
REQUEST_BYTES: Final = 100 << 20
#: The longest frame that is collected at all; `fetch.max.bytes` is soft, one large batch may exceed it.
FRAME_BYTES: Final = 256 << 20
#: Bytes of unfinished frames held for all flows together; beyond it the longest are given up. Consumers fetch 50 MB
#: (`fetch.max.bytes`).
UNFINISHED_BYTES: Final = 64 << 20
#: Pieces that one unfinished frame is held in; more are joined.
FRAME_PIECES: Final = 4_096
#: Bytes of one direction that are looked at again with each packet until it is known what they are; with more, now and
#: then.
RECOGNITION_BYTES: Final = 64 << 10
#: With more bytes of messages than this waiting, none waits longer.
HELD_BYTES: Final = 32 << 20
#: Requests that wait for their answer on one connection.
IN_FLIGHT: Final = 10_000
#: Bytes that one record batch may decompress to.
DECOMPRESSED_BYTES: Final = 128 << 20
#: Bytes of decompressed records held before the messages they belong to are handed on.
PENDING_RECORD_BYTES: Final = 2 << 20
#: Bytes that the record batches of any message may decompress to, how many more for each byte of its records fields,
#: and the most. A producer's request holds 1 MB (`max.request.size`); what repeats itself all the time becomes a
#: hundredth.
ANY_RECORD_BYTES: Final = 1 << 20
RECORD_BYTES_PER_BYTE: Final = 128
MESSAGE_RECORD_BYTES: Final = 256 << 20
#: The same for batches, records and headers of records; further ones are not opened. A record takes a byte, however
#: well compressed; headers may all be the same.
ANY_RECORDS: Final = 1_024
RECORDS_PER_BYTE: Final = 8
MESSAGE_RECORDS: Final = 2 << 20
#: Bytes of one PushTelemetry's metrics, decompressed (`telemetry.max.bytes` is 1 MB by default), and values in them.
TELEMETRY_BYTES: Final = 2 << 20
TELEMETRY_VALUES: Final = 1 << 18
#: Structures inside the bytes and records of one message that are opened.
STRUCTURES_PER_MESSAGE: Final = 1 << 16
#: Faults of one body that are reported one by one, not counting the one that ends its reading.
FAULTS_PER_BODY: Final = 16
#: Depth of structures inside structures.
NESTING: Final = 32
#: Weirds of one code reported one by one for a flow; the rest is counted.
WEIRDS_PER_FLOW: Final = 100
#: Weirds and gaps of a flow whose rows wait for its first message, or its end, to tell which end is the client.
UNNAMED: Final = 16
#: Rows of a table of `kshark stats`; what comes beyond is counted together.
STATISTICS_ROWS: Final = 10_000
#: Groups of `kshark groups`, their members in all, and what is told of each: the last changes of state, and of
#: coordinator, the last administrative operations that changed it, and that only read.
GROUPS: Final = 10_000
GROUP_MEMBERS: Final = 100_000
GROUP_CHANGES: Final = 100
#: What a report holds: findings of each kind in full, members with their time line, cells of its chart, and share
#: requests, those that were refused apart.
REPORT_FINDINGS: Final = 20
REPORT_MEMBERS: Final = 24
REPORT_CELLS: Final = 20_000
REPORT_TICKS: Final = 200_000
#: Refused exchanges that a later finding may explain; of older ones no finding is expected any more.
REFUSALS: Final = 65_536
#: Share sessions held at the same time, and members, 5 kB for both: as many as connections. Beyond it those not used
#: for longest are forgotten. A broker has 2,000 by default (`group.share.max.share.sessions`).
SESSIONS: Final = 20_000
#: Share sessions that `kshark sessions` and a report list.
LISTED_SESSIONS: Final = 100_000
#: Members of share groups on one connection whose last request is remembered for the tables.
MEMBERS_OF_CONNECTION: Final = 1_000
#: Requests of one share session that wait for the answer of an earlier one.
WAITING_STEPS: Final = 100
#: Findings of one share session that wait for what the capture shows later.
WAITING_VERDICTS: Final = 100
#: Requests of one share session that were open when the last one came.
OVERLAPPING_STEPS: Final = 64
#: Partitions of one share session, and ranges of records its member holds, that are remembered.
SESSION_PARTITIONS: Final = 10_000
HELD_RANGES: Final = 10_000
#: Clusters whose share partitions are told apart; those of more are taken for one cluster's.
CLUSTERS: Final = 16
#: Share partitions of a cluster, and ranges of records of one that are remembered.
SHARE_PARTITIONS: Final = 10_000
IN_FLIGHT_RANGES: Final = 10_000
#: Spans of offsets that are told of one records field; of further ones nothing is known.
RECORD_SPANS: Final = 64
#: Of the ranges in flight in a share partition, those that are listed with each change of it.
LISTED_RANGES: Final = 32
#: Of all share partitions together, ranges that are done with; each keeps its part.
DONE_RANGES: Final = 100_000
#: Members and topics of which what they do again and again is counted.
RATIONED: Final = 10_000
#: Findings about records that wait for what the capture shows later.
PENDING_VERDICTS: Final = 1_000
#: Ranges of offsets that are remembered of what share coordinators stored, and the connections on which one state was
#: asked for.
STORED_RANGES: Final = 1_000_000
SENDERS_OF_A_STATE: Final = 16
#: Administrative operations that wait for what they lack.
UNFINISHED_OPERATIONS: Final = 1_000
#: Holes remembered of one connection, and of one broker; if there are more, the older half become one that covers them.
HOLES: Final = 128
#: Hosts of one broker's clients whose holes are told apart; those of further ones count for all.
LOSSY_HOSTS: Final = 1_000
#: Restarts remembered of one broker.
RESTARTS_PER_BROKER: Final = 64
#: Client ids remembered as text.
CLIENT_IDS: Final = 10_000
#: Answers of one API and version that are remembered because connections get equal ones, and the bytes of the longest.
REPEATED_ANSWERS: Final = 64
REPEATED_BYTES: Final = 16 << 10
#: Names of topic ids, and addresses of brokers, that are remembered.
TOPICS: Final = 1_000_000
BROKERS: Final = 10_000
#: Places looked at in one search for the next message boundary.
BOUNDARY_CANDIDATES: Final = 4_096
#: Pieces of one direction that are looked at again with each one that comes; more only when they have become a good
#: part more.
SEARCHED_PIECES: Final = 64
#: Bytes of one direction searched for the next message boundary, and pieces that they came in; what is older is
#: skipped.
SEARCH_BYTES: Final = 1 << 20
SEARCH_PIECES: Final = 1 << 16
#: Connections that are over and remembered, 2 kB each, so that no late segment and no copy opens new ones; and those of
#: one pair.
CLOSED_FLOWS: Final = 10_000
CLOSED_FLOWS_PER_PAIR: Final = 8
