"""AlterPartitionReassignments (API 45): an administrator moves partitions between brokers."""

from kshark.schema import api, array, boolean, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

reassignable_topic = struct(
    string("name"),
    array("partitions", struct(int32("partition_index"), array("replicas", int32(), nullable="0+"))),
)
reassignable_partition_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    45,
    "AlterPartitionReassignments",
    versions="0-1",
    flexible="0+",
    kip="KIP-455",
    request=struct(
        int32("timeout_ms", default=60000),
        boolean("allow_replication_factor_change", versions="1+", default=True),
        array("topics", reassignable_topic),
    ),
    response=struct(
        int32("throttle_time_ms"),
        boolean("allow_replication_factor_change", versions="1+", default=True),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("responses", struct(string("name"), array("partitions", reassignable_partition_response))),
    ),
)
