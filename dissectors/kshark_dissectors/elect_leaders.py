"""ElectLeaders (API 43): an administrator lets leaders be elected."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import ElectionType, ErrorCode

partition_result = struct(
    int32("partition_id"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    43,
    "ElectLeaders",
    versions="0-2",
    flexible="2+",
    kip="KIP-460",
    request=struct(
        int8("election_type", versions="1+", enum=ElectionType),
        array("topic_partitions", struct(string("topic"), array("partitions", int32())), nullable="0+"),
        int32("timeout_ms", default=60000),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", versions="1+", enum=ErrorCode),
        array("replica_election_results", struct(string("topic"), array("partition_result", partition_result))),
    ),
)
