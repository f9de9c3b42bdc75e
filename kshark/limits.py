"""The one list of limits, for every table, buffer and length that input could make grow.

Reaching a limit is reported, never silent.
"""

from typing import Final

#: Bytes of a capture file that make one PacketBatch. 1 MB measured faster than 4 MB, with half the memory.
BATCH_BYTES: Final = 1 << 20
#: Approximate packets of a batch of small packets: connections that begin in one batch are kept in addition to those
#: forgotten after it.
BATCH_PACKETS: Final = 6_000
#: Largest captured length a packet record may claim (Wireshark's WTAP_MAX_PACKET_SIZE_STANDARD is 256 KiB; offloads
#: give more).
PACKET_BYTES: Final = 1 << 24
#: Largest pcapng block.
BLOCK_BYTES: Final = 1 << 25
#: Interfaces that one section of a pcapng file may describe.
INTERFACES: Final = 65_536
#: Dropped packets that one weird stands for; a damaged count may be any number of 64 bits.
DROPPED_PACKETS: Final = 1 << 40
#: Runs of packets from one file, in a merge of overlapping files, whose file and frame are remembered.
NUMBERING_RUNS: Final = 1 << 20
#: The greatest clock difference assumed between two captures that overlap for at least this long, in nanoseconds (NTP
#: keeps hosts closer).
CLOCKS_NS: Final = 500_000_000
#: Packets remembered at which the capture's clock is in doubt; beyond it the older half is joined into one.
CLOCK_DOUBTS: Final = 256
#: Pairs of ends (address and port) that stay when the longest unseen ones are forgotten; at most twice as many are
#: held.
PAIRS: Final = 200_000
#: Packets of a file whose times run backwards by at most this are sorted by time (NTP steps a clock from 128 ms on), as
#: long as no more packets and bytes wait for earlier ones.
SORTED_NS: Final = 100_000_000
SORTED_PACKETS: Final = 20_000
SORTED_BYTES: Final = 16 << 20
#: Of a request log: the longest line, the time that rows wait for the line of a request that began before them, and the
#: bytes of such rows.
LOG_LINE_BYTES: Final = 1 << 27
LOGGED_NS: Final = 60_000_000_000
LOGGED_BYTES: Final = 64 << 20
#: Correlation ids that are remembered for each client of a request log.
LOGGED_IDS: Final = 4_096
#: The time of a line of a request log is that of its writing: requests of different connections that are this close in
#: time have no known order.
LOGGED_ORDER_NS: Final = 100_000_000
#: A silence of the whole capture: a step of its clock would look the same. TCP timestamps decide, in this many packets
#: before and after it.
SILENCE_NS: Final = 500_000_000
SILENCE_PACKETS: Final = 256
#: The clock stands still if this many packets in a row have one time.
STOPPED_PACKETS: Final = 32
#: Headers of one packet, including nested tunnels and tags.
HEADERS: Final = 64
#: Fragmented IP packets: bytes and pieces held, and how many nanoseconds a packet waits for the rest (RFC 791: 15 s,
#: but identifications repeat much sooner: RFC 4963).
FRAGMENT_BYTES: Final = 4 << 20
FRAGMENTS: Final = 8_192
FRAGMENT_NS: Final = 5_000_000_000
#: Kinds of packets without TCP that are counted separately.
PACKET_KINDS: Final = 256
#: Bytes that a running capture keeps of a packet, and captured packets on disk that wait to be judged, if no others are
#: asked for.
SNAP_LENGTH: Final = 262_144
SPOOL_BYTES: Final = 4 << 30
#: TCP connections whose state is held at the same time, 4 kB each; beyond it the ones idle for longest are forgotten.
#: The batch that exceeds it may open 15,000 more: 25,000 take 220 MB.
FLOWS: Final = 20_000
#: Forgotten connections whose position is remembered, 34 bytes each.
REMEMBERED_FLOWS: Final = 200_000
#: TCP connections whose packets are measured and that are listed individually, up to 15 kB each; the others are only
#: counted.
MEASURED_FLOWS: Final = 10_000
#: Of a measured direction: holes that may be filled, and the last segments, which distinguish a copy from a
#: retransmission.
MEASURED_HOLES: Final = 16
MEASURED_SEGMENTS: Final = 16
#: Memory of a segment held out of order besides its payload; payload and this count against the next two limits.
LATE_SEGMENT_BYTES: Final = 256
#: Bytes held out of order for one direction until the hole before them is given up as a Gap.
REORDER_BYTES: Final = 4 << 20
#: The same for all connections together; beyond it the holes with the most bytes after them are given up.
LATE_BYTES: Final = 32 << 20
#: A hole is given up when the peer has acknowledged past it and this many segments came after it.
REORDER_SEGMENTS: Final = 64
#: Packets of all connections waiting for their acknowledgement, which shows what a sender had received: 40 bytes each;
#: counted after as many packets. Beyond it those of the directions with the most of them are forgotten: unknown.
UNACKED_PACKETS: Final = 1 << 20
#: Bytes that are sent again without an acknowledgement, and a window of zero, are reported after this time.
UNACKED_NS: Final = 500_000_000
WINDOW_CLOSED_NS: Final = 1_000_000_000
#: The last packets whose times are known, for the first transmission of bytes that are sent again: 16 bytes each.
TIMED_PACKETS: Final = 16_384
#: No message is held longer than this for data of other connections, in nanoseconds of packet time.
HELD_NS: Final = 200_000_000
#: A hole is also given up this long after that acknowledgement; an unacknowledged one holds other connections no longer
#: than this.
REORDER_NS: Final = HELD_NS // 2
#: PROXY headers of one connection, one for each proxy; bytes of unfinished ones, of all connections together.
PROXY_HEADERS: Final = 8
PROXY_HELD_BYTES: Final = 16 << 20
#: Connections whose TLS secrets are remembered, 500 bytes each; beyond it the first ones are forgotten.
TLS_KEYS: Final = 100_000
#: Bytes of secrets that one pcapng file may contain before a packet.
TLS_SECRETS_BYTES: Final = 32 << 20
#: The longest ClientHello and ServerHello.
TLS_HELLO_BYTES: Final = 64 << 10
#: Bytes of a TLS connection that wait for its handshake, or for the rest of a record; and of all connections together.
TLS_WAITING_BYTES: Final = 256 << 10
TLS_HELD_BYTES: Final = 32 << 20
#: Records of 0-RTT data that are skipped if they cannot be decrypted.
TLS_EARLY_RECORDS: Final = 1_000
#: After a hole: the number of records that may have been lost in it; the same with the next keys; the decryption
#: attempts for one direction in all, to which each opened record adds one.
TLS_LOST_RECORDS: Final = 4_096
TLS_FIRST_RECORDS: Final = 64
TLS_TRIES: Final = 20_000
#: The longest request that is certainly one: a broker's default of `socket.request.max.bytes`. A longer one must have a
#: sound header. Kafka: SocketServerConfigs.
REQUEST_BYTES: Final = 100 << 20
#: The same for answers: a longer one must answer an open request. `fetch.max.bytes` is soft, one large batch may exceed
#: it.
ANSWER_BYTES: Final = 256 << 20
#: Bytes of unfinished frames held for all flows together. Consumers fetch 50 MB (`fetch.max.bytes`).
UNFINISHED_BYTES: Final = 64 << 20
#: Bytes that are kept of a message whose end the snap length cut off.
CUT_MESSAGE_BYTES: Final = 64 << 10
#: The longest frame that is collected. Of a longer one, and of the longest ones when all together exceed the limit
#: above, the first bytes are kept, which have the header, and the rest is skipped.
FRAME_BYTES: Final = UNFINISHED_BYTES
HEAD_BYTES: Final = 1_024
#: A broker that closes after so many bytes of a request may not have read them: they fit into its receive buffer
#: (Linux: tcp_rmem).
UNREAD_BYTES: Final = 8 << 20
#: Pieces of one unfinished frame; more are joined.
FRAME_PIECES: Final = 4_096
#: Bytes of an unrecognised direction that are checked again with each packet; with more bytes, only now and then.
RECOGNITION_BYTES: Final = 64 << 10
#: If more bytes of messages than this wait, all are released.
HELD_BYTES: Final = 32 << 20
#: Bytes of all requests that wait for their answer while others of their connection do, 1 kB and the request each.
#: Beyond it the oldest of a connection are given up. librdkafka allows a million (`max.in.flight`).
OPEN_BYTES: Final = 320 << 20
OPEN_REQUEST_BYTES: Final = 1_000
#: Open requests of one connection beyond which its oldest are found and removed in constant time.
MANY_OPEN: Final = 1_000
#: The greatest difference between the correlation ids of two requests that may follow each other, where a message
#: boundary is searched.
IDS_APART: Final = 10_000
#: Acquisitions of share sessions that are compared with those of other brokers.
ACQUISITIONS: Final = 10_000
#: Bytes that one record batch may decompress to.
DECOMPRESSED_BYTES: Final = 128 << 20
#: Bytes of decompressed records held before their messages are passed on.
PENDING_RECORD_BYTES: Final = 2 << 20
#: Decompressed bytes of one message's record batches: the number that is always allowed, how many more for each byte of
#: its records fields, and the most. A producer's request holds 1 MB (`max.request.size`); very repetitive data shrinks
#: to a hundredth.
ANY_RECORD_BYTES: Final = 1 << 20
RECORD_BYTES_PER_BYTE: Final = 128
MESSAGE_RECORD_BYTES: Final = 256 << 20
#: The same for batches, records and headers of records; further ones are not opened. A record takes at least a byte,
#: however well compressed; headers may all be equal.
ANY_RECORDS: Final = 1_024
RECORDS_PER_BYTE: Final = 8
MESSAGE_RECORDS: Final = 2 << 20
#: Decompressed bytes of one PushTelemetry's metrics (`telemetry.max.bytes` is 1 MB by default), and values in them.
TELEMETRY_BYTES: Final = 2 << 20
TELEMETRY_VALUES: Final = 1 << 18
#: Structures inside the bytes and records of one message that are opened.
STRUCTURES_PER_MESSAGE: Final = 1 << 16
#: Faults of one body that are reported one by one, without the one that ends its reading.
FAULTS_PER_BODY: Final = 16
#: Depth of structures inside structures.
NESTING: Final = 32
#: Weirds of one code that are reported one by one for a flow; the rest is counted.
WEIRDS_PER_FLOW: Final = 100
#: Weirds and gaps of a flow whose rows wait for its first message, or its end, to know which end is the client.
UNNAMED: Final = 16
#: Rows of a table of `kshark stats`; further ones are counted together.
STATISTICS_ROWS: Final = 10_000
#: Rows of `kshark stats --by`, 1 kB each; further ones are counted together, by interval up to as many again. Cells of
#: the rows' latencies, 16 bytes each: beyond it they get wider, and percentiles less exact.
BREAKDOWN_ROWS: Final = 100_000
BREAKDOWN_CELLS: Final = 4_000_000
#: Groups of `kshark groups`, their members in all, and the entries of each: its last changes of state and of
#: coordinator, the last administrative operations that changed it, and the last that only read.
GROUPS: Final = 10_000
STORED_WRITES: Final = 1_000_000
GROUP_MEMBERS: Final = 100_000
GROUP_CHANGES: Final = 100
#: Members of one group, and partitions, whose rebalances are followed; further ones are left out.
REBALANCING: Final = 10_000
#: Records of the coordinators' logs that `kshark groups` holds.
GROUP_RECORDS: Final = 20_000
#: Times between events that are kept to tell a silent member from a step of the clock.
PAUSES: Final = 100
#: Contents of a report: findings in full, the first of each kind (about 0.9 kB each on the page; findings.parquet has
#: all), clients with their findings, members with their time line, cells of its chart, and share requests; rejected
#: ones are counted apart.
REPORT_FINDINGS: Final = 5_000
REPORT_CLIENTS: Final = 1_000
REPORT_MEMBERS: Final = 24
REPORT_CELLS: Final = 20_000
REPORT_TICKS: Final = 200_000
#: Causes of findings, each with one member, that `kshark live` counts apart; further members are counted by cause.
LIVE_CAUSES: Final = 10_000
#: Requests answered with an error that a later finding may explain; for older ones no finding is expected.
REFUSALS: Final = 65_536
#: Share sessions held at the same time, and members, 5 kB for both: as many as connections. Beyond it the ones unused
#: for longest are forgotten. A broker has 2,000 by default (`group.share.max.share.sessions`).
SESSIONS: Final = 20_000
#: Share sessions that `kshark sessions` and a report list.
LISTED_SESSIONS: Final = 100_000
#: Members of share groups on one connection whose last request is remembered for the tables.
MEMBERS_OF_CONNECTION: Final = 1_000
#: Requests of one share session that wait for the answer to an earlier one.
WAITING_STEPS: Final = 100
#: Findings of one share session that wait for later packets.
WAITING_VERDICTS: Final = 100
#: Requests of one share session that were open when the last one was sent.
OVERLAPPING_STEPS: Final = 64
#: Partitions of one share session, and record ranges that its member holds, that are remembered.
SESSION_PARTITIONS: Final = 10_000
HELD_RANGES: Final = 10_000
#: Clusters whose share partitions are kept apart; further ones count as one cluster.
CLUSTERS: Final = 16
#: Share partitions of a cluster, and record ranges of one partition that are remembered.
SHARE_PARTITIONS: Final = 10_000
IN_FLIGHT_RANGES: Final = 10_000
#: Spans of offsets that are kept of one records field; further ones are unknown.
RECORD_SPANS: Final = 64
#: Ranges in flight in a share partition that are listed with each change of it.
LISTED_RANGES: Final = 32
#: Finished ranges of all share partitions together; each partition keeps its part.
DONE_RANGES: Final = 100_000
#: Members and topics whose repeated events are counted.
RATIONED: Final = 10_000
#: Findings about records, about members, and about stored states that wait for later packets, each.
PENDING_VERDICTS: Final = 1_000
#: Remembered offset ranges of the state that share coordinators stored, and connections that asked for one state.
STORED_RANGES: Final = 1_000_000
SENDERS_OF_A_STATE: Final = 16
#: Administrative operations that wait for missing parts.
UNFINISHED_OPERATIONS: Final = 1_000
#: Holes remembered of one connection, and of one broker; beyond it the older half is joined into one that covers them.
HOLES: Final = 128
#: Hosts of one broker's clients whose holes are kept apart; those of further hosts count for all.
LOSSY_HOSTS: Final = 1_000
#: Restarts remembered of one broker.
RESTARTS_PER_BROKER: Final = 64
#: Client ids remembered as text.
CLIENT_IDS: Final = 10_000
#: Answers of one API and version that are cached because connections get equal ones, and the bytes of the longest.
REPEATED_ANSWERS: Final = 64
REPEATED_BYTES: Final = 16 << 10
#: Names of topic ids, and addresses of brokers, that are remembered.
TOPICS: Final = 1_000_000
BROKERS: Final = 10_000
#: Positions checked in one search for the next message boundary.
BOUNDARY_CANDIDATES: Final = 4_096
#: Pieces of one direction that are checked again with each new piece; more only after a good part more has arrived.
SEARCHED_PIECES: Final = 64
#: Bytes of one direction searched for the next message boundary, and their pieces; older ones are skipped.
SEARCH_BYTES: Final = 1 << 20
SEARCH_PIECES: Final = 1 << 16
#: Ended connections that are remembered, 2 kB each, so that no late segment and no copy opens new ones; and those of
#: one pair.
CLOSED_FLOWS: Final = 10_000
CLOSED_FLOWS_PER_PAIR: Final = 8
#: Ended connections whose open requests are remembered, so that a late answer on the next connection is recognised.
ENDED_UNANSWERED: Final = 1_000
#: An incident of a broker that does not answer: the shortest silence, how far requests must be beyond their own wait,
#: and the factor of the broker's usual time for an answer.
SILENT_NS: Final = 1_000_000_000
BEYOND_NS: Final = 200_000_000
USUAL_TIMES: Final = 10
#: A request is overdue this long after its own wait, or without one after Kafka's request.timeout.ms.
OVERDUE_WAITING_NS: Final = 10_000_000_000
OVERDUE_NS: Final = 30_000_000_000
#: Times without any request, answer or end of a connection: the shortest one that is kept, and their number.
QUIET_NS: Final = 200_000_000
QUIET_TIMES: Final = 256
#: The shortest outage; directions between hosts, and connections of each, with bytes that are not acknowledged.
OUTAGE_NS: Final = 1_000_000_000
LOST_PATHS: Final = 10_000
LOST_CONNECTIONS: Final = 1_000
#: Connections that a broker ended within a second.
BROKER_ENDS: Final = 1_000
#: Kinds of failed TLS handshakes at once, and hosts whose connections to a broker carry nothing.
TLS_FAILURES: Final = 10_000
CHECKING_HOSTS: Final = 100
#: Addresses that accept connections; with more of them, no address is said to be unreachable.
ACCEPTING_ADDRESSES: Final = 100_000
#: Clients of brokers whose versions of APIs are known, and connections closed on one of them.
SERVED_CLIENTS: Final = 10_000
CLOSINGS: Final = 100
#: A finding that an incident may excuse is certain this long after it, if no incident is under way then; how many are
#: looked at with one tick of a running capture (and one of a hundred, if more wait).
EXCUSED_NS: Final = 10_000_000_000
EXCUSED_EACH_TICK: Final = 100
#: Incidents that last, of those listed at one time.
LASTING: Final = 200
#: Incidents that explain findings of one code; later ones are reported and explain nothing.
INCIDENTS: Final = 10_000
#: Connections of a member whose fetches are followed; with more, those before count as unseen.
CONNECTIONS_OF_MEMBER: Final = 16
#: Topics of one connection that are followed; the deletion of further ones is no incident.
TOPICS_OF_CONNECTION: Final = 1_000
#: Entries that `kshark events` lists, besides those of groups and incidents.
TIMELINE_ENTRIES: Final = 100_000
#: Producers with transactions, partitions that these write to, and the producers of each, with the batches of each
#: that are not decided yet.
PRODUCERS: Final = 100_000
TRANSACTIONAL_PARTITIONS: Final = 10_000
TRANSACTIONS: Final = 100
#: Keys of records whose partition is remembered for each client that writes them.
HASHED_KEYS: Final = 200_000
#: Client processes whose repeated requests are followed, and the refused partitions and groups of each request.
RETRYING: Final = 10_000
RETRIED_PLACES: Final = 100
#: Seconds in which a broker answered one host that are remembered.
HEARD_SECONDS: Final = 128
#: Members, and causes of findings, that the screen of `kshark live` keeps; the quiet ones are forgotten first.
SCREEN_MEMBERS: Final = 10_000
SCREEN_CAUSES: Final = 1_000
