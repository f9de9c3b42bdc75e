"""BeginQuorumEpoch (API 53): a new leader of the metadata quorum announces itself."""

from kshark.schema import api, array, int16, int32, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

partition_data = struct(
    int32("partition_index"),
    uuid("voter_directory_id", versions="1+"),
    int32("leader_id"),
    int32("leader_epoch"),
)
partition_data_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    int32("leader_id"),
    int32("leader_epoch"),
)

DISSECTOR = api(
    53,
    "BeginQuorumEpoch",
    versions="0-1",
    flexible="1+",
    kip="KIP-595",
    request=struct(
        string("cluster_id", nullable="0+"),
        int32("voter_id", versions="1+", default=-1),
        array("topics", struct(string("topic_name"), array("partitions", partition_data))),
        array("leader_endpoints", struct(string("name"), string("host"), uint16("port")), versions="1+"),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("topics", struct(string("topic_name"), array("partitions", partition_data_response))),
        array("node_endpoints", struct(int32("node_id"), string("host"), uint16("port")), versions="1+", tag=0),
    ),
)
