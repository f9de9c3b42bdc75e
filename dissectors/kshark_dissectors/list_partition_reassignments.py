"""ListPartitionReassignments (API 46): the partitions that are being moved."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

ongoing_partition_reassignment = struct(
    int32("partition_index"),
    array("replicas", int32()),
    array("adding_replicas", int32()),
    array("removing_replicas", int32()),
)

DISSECTOR = api(
    46,
    "ListPartitionReassignments",
    versions="0",
    flexible="0+",
    kip="KIP-455",
    request=struct(
        int32("timeout_ms", default=60000),
        array("topics", struct(string("name"), array("partition_indexes", int32())), nullable="0+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("topics", struct(string("name"), array("partitions", ongoing_partition_reassignment))),
    ),
)
