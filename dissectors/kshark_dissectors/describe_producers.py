"""DescribeProducers (API 61): producers that a partition leader remembers."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

producer_state = struct(
    int64("producer_id"),
    int32("producer_epoch"),
    int32("last_sequence", default=-1),
    int64("last_timestamp", default=-1),
    int32("coordinator_epoch"),
    int64("current_txn_start_offset", default=-1),
)
partition = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    array("active_producers", producer_state),
)

DISSECTOR = api(
    61,
    "DescribeProducers",
    versions="0",
    flexible="0+",
    kip="KIP-664",
    request=struct(array("topics", struct(string("name"), array("partition_indexes", int32())))),
    response=struct(
        int32("throttle_time_ms"),
        array("topics", struct(string("name"), array("partitions", partition))),
    ),
)
