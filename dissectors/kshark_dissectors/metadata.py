"""Metadata (API 3): who is in the cluster and which broker leads which partition."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uuid
from kshark_dissectors.enums import AclOperation, ErrorCode

broker = struct(
    int32("node_id"),
    string("host"),
    int32("port"),
    string("rack", versions="1+", nullable="1+"),
)
partition = struct(
    int16("error_code", enum=ErrorCode),
    int32("partition_index"),
    int32("leader_id"),
    int32("leader_epoch", versions="7+", default=-1),
    array("replica_nodes", int32()),
    array("isr_nodes", int32()),
    array("offline_replicas", int32(), versions="5+"),
)
response_topic = struct(
    int16("error_code", enum=ErrorCode),
    string("name", nullable="12+"),
    uuid("topic_id", versions="10+", name_in="name"),
    boolean("is_internal", versions="1+"),
    array("partitions", partition),
    int32("topic_authorized_operations", versions="8+", default=-2147483648, enum=AclOperation, bits=True),
)

DISSECTOR = api(
    3,
    "Metadata",
    versions="0-13",
    flexible="9+",
    request=struct(
        array("topics", struct(uuid("topic_id", versions="10+"), string("name", nullable="10+")), nullable="1+"),
        boolean("allow_auto_topic_creation", versions="4+", default=True),
        boolean("include_cluster_authorized_operations", versions="8-10"),
        boolean("include_topic_authorized_operations", versions="8+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="3+"),
        array("brokers", broker),
        string("cluster_id", versions="2+", nullable="2+"),
        int32("controller_id", versions="1+", default=-1),
        array("topics", response_topic),
        int32("cluster_authorized_operations", versions="8-10", default=-2147483648, enum=AclOperation, bits=True),
        int16("error_code", versions="13+", enum=ErrorCode),
    ),
)
