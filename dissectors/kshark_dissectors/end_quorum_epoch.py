"""EndQuorumEpoch (API 54): a leader of the metadata quorum resigns."""

from kshark.schema import api, array, int16, int32, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

partition_data = struct(
    int32("partition_index"),
    int32("leader_id"),
    int32("leader_epoch"),
    array("preferred_successors", int32(), versions="0"),
    array("preferred_candidates", struct(int32("candidate_id"), uuid("candidate_directory_id")), versions="1+"),
)
partition_data_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    int32("leader_id"),
    int32("leader_epoch"),
)

DISSECTOR = api(
    54,
    "EndQuorumEpoch",
    versions="0-1",
    flexible="1+",
    kip="KIP-595",
    request=struct(
        string("cluster_id", nullable="0+"),
        array("topics", struct(string("topic_name"), array("partitions", partition_data))),
        array("leader_endpoints", struct(string("name"), string("host"), uint16("port")), versions="1+"),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("topics", struct(string("topic_name"), array("partitions", partition_data_response))),
        array("node_endpoints", struct(int32("node_id"), string("host"), uint16("port")), versions="1+", tag=0),
    ),
)
