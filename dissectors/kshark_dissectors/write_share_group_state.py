"""WriteShareGroupState (API 85): a partition leader stores what became of the records of its share partitions."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.structs import state_batch

partition_data = struct(
    int32("partition"),
    int32("state_epoch"),
    int32("leader_epoch"),
    int64("start_offset"),
    int32("delivery_complete_count", versions="1+", default=-1),
    array("state_batches", state_batch),
)
partition_result = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    85,
    "WriteShareGroupState",
    versions="0-1",
    flexible="0+",
    kip="KIP-932",
    request=struct(
        string("group_id"),
        array("topics", struct(uuid("topic_id"), array("partitions", partition_data))),
    ),
    response=struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result)))),
)
