"""Vote (API 52): a candidate of the metadata quorum asks for a vote."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

partition_data = struct(
    int32("partition_index"),
    int32("replica_epoch"),
    int32("replica_id"),
    uuid("replica_directory_id", versions="1+"),
    uuid("voter_directory_id", versions="1+"),
    int32("last_offset_epoch"),
    int64("last_offset"),
    boolean("pre_vote", versions="2+"),
)
partition_data_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    int32("leader_id"),
    int32("leader_epoch"),
    boolean("vote_granted"),
)

DISSECTOR = api(
    52,
    "Vote",
    versions="0-2",
    flexible="0+",
    kip="KIP-595",
    request=struct(
        string("cluster_id", nullable="0+"),
        int32("voter_id", versions="1+", default=-1),
        array("topics", struct(string("topic_name"), array("partitions", partition_data))),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("topics", struct(string("topic_name"), array("partitions", partition_data_response))),
        array("node_endpoints", struct(int32("node_id"), string("host"), uint16("port")), versions="1+", tag=0),
    ),
)
