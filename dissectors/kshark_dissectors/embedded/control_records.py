"""Records of control batches: ends of transactions (KIP-98), and what the quorum writes into its own log (KIP-595,
KIP-630, KIP-853).

Kafka: ControlRecordType, ControlRecordUtils, EndTransactionMarker.
"""

from kshark.places import Log, Numbers, Structure
from kshark.schema import array, int16, int32, int64, layout, named, string, struct, uint16, uuid

END_TXN_MARKER = layout("EndTxnMarker", versions="0", flexible="none", fields=struct(int32("coordinator_epoch")))

change_voter = struct(int32("voter_id"), uuid("voter_directory_id", versions="1+"))

LEADER_CHANGE = layout(
    "LeaderChangeMessage",
    versions="0-1",
    flexible="0+",
    fields=struct(
        int16("version"),
        int32("leader_id"),
        array("voters", change_voter),
        array("granting_voters", change_voter, about="who voted for the leader"),
    ),
)

SNAPSHOT_HEADER = layout(
    "SnapshotHeaderRecord",
    versions="0",
    flexible="0+",
    fields=struct(int16("version"), int64("last_contained_log_timestamp")),
)

SNAPSHOT_FOOTER = layout("SnapshotFooterRecord", versions="0", flexible="0+", fields=struct(int16("version")))

KRAFT_VERSION = layout(
    "KRaftVersionRecord", versions="0", flexible="0+", fields=struct(int16("version"), int16("kraft_version"))
)

voter = struct(
    int32("voter_id"),
    uuid("voter_directory_id"),
    array("endpoints", struct(string("name"), string("host"), uint16("port"))),
    named("kraft_version_feature", struct(int16("min_supported_version"), int16("max_supported_version"))),
)

VOTERS = layout("VotersRecord", versions="0", flexible="0+", fields=struct(int16("version"), array("voters", voter)))

CONTROL = Log(
    {
        0: (None, Structure(END_TXN_MARKER)),
        1: (None, Structure(END_TXN_MARKER)),
        2: (None, Structure(LEADER_CHANGE, "first_field")),
        3: (None, Structure(SNAPSHOT_HEADER, "first_field")),
        4: (None, Structure(SNAPSHOT_FOOTER, "first_field")),
        5: (None, Structure(KRAFT_VERSION, "first_field")),
        6: (None, Structure(VOTERS, "first_field")),
    },
    key=Numbers(("version", "type")),
)
