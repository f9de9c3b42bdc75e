"""DescribeQuorum (API 55): leader, voters and observers of the metadata quorum."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

topic_data = struct(string("topic_name"), array("partitions", struct(int32("partition_index"))))
replica_state = struct(
    int32("replica_id"),
    uuid("replica_directory_id", versions="2+"),
    int64("log_end_offset"),
    int64("last_fetch_timestamp", versions="1+", default=-1),
    int64("last_caught_up_timestamp", versions="1+", default=-1),
)
partition_data = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", versions="2+", nullable="2+"),
    int32("leader_id"),
    int32("leader_epoch"),
    int64("high_watermark"),
    array("current_voters", replica_state),
    array("observers", replica_state),
)
node = struct(
    int32("node_id"),
    array("listeners", struct(string("name"), string("host"), uint16("port"))),
)

DISSECTOR = api(
    55,
    "DescribeQuorum",
    versions="0-2",
    flexible="0+",
    kip="KIP-595",
    request=struct(array("topics", topic_data)),
    response=struct(
        int16("error_code", enum=ErrorCode),
        string("error_message", versions="2+", nullable="2+"),
        array("topics", struct(string("topic_name"), array("partitions", partition_data))),
        array("nodes", node, versions="2+"),
    ),
)
