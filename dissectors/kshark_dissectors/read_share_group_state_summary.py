"""ReadShareGroupStateSummary (API 87): the state of share partitions without its batches."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

read_state_summary_data = struct(
    uuid("topic_id"),
    array("partitions", struct(int32("partition"), int32("leader_epoch"))),
)
partition_result = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int32("state_epoch"),
    int32("leader_epoch"),
    int64("start_offset"),
    int32("delivery_complete_count", versions="1+", default=-1),
)
#: What 3.9 and 4.0 sent under the same version number.
partition_result_before_4_1 = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int32("state_epoch"),
    int64("start_offset"),
)

DISSECTOR = api(
    87,
    "ReadShareGroupStateSummary",
    versions="0-1",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", read_state_summary_data)),
    response=struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result)))),
    older_response={
        0: struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result_before_4_1))))
    },
)
