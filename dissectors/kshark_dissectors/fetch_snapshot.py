"""FetchSnapshot (API 59): a follower of the metadata quorum reads a snapshot piece by piece."""

from kshark.schema import api, array, int16, int32, int64, records, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

partition_snapshot = struct(
    int32("partition"),
    int32("current_leader_epoch"),
    struct(int64("end_offset"), int32("epoch"), name="snapshot_id"),
    int64("position"),
    uuid("replica_directory_id", versions="1+", tag=0),
)
partition_snapshot_response = struct(
    int32("index"),
    int16("error_code", enum=ErrorCode),
    struct(int64("end_offset"), int32("epoch"), name="snapshot_id"),
    struct(int32("leader_id"), int32("leader_epoch"), name="current_leader", tag=0),
    int64("size"),
    int64("position"),
    records("unaligned_records", aligned=False),
)

DISSECTOR = api(
    59,
    "FetchSnapshot",
    versions="0-1",
    flexible="0+",
    kip="KIP-630",
    request=struct(
        string("cluster_id", nullable="0+", tag=0),
        int32("replica_id", default=-1),
        int32("max_bytes", default=2147483647),
        array("topics", struct(string("name"), array("partitions", partition_snapshot))),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        array("topics", struct(string("name"), array("partitions", partition_snapshot_response))),
        array("node_endpoints", struct(int32("node_id"), string("host"), uint16("port")), versions="1+", tag=0),
    ),
)
