"""ReadShareGroupState (API 84): a new partition leader reads the state of its share partitions."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.structs import state_batch

read_state_data = struct(
    uuid("topic_id"),
    array("partitions", struct(int32("partition"), int32("leader_epoch"))),
)
partition_result = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int32("state_epoch"),
    int64("start_offset"),
    array("state_batches", state_batch),
)

DISSECTOR = api(
    84,
    "ReadShareGroupState",
    versions="0",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", read_state_data)),
    response=struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result)))),
)
