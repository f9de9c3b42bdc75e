"""InitializeShareGroupState (API 83): the group coordinator sets up the state of share partitions."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

initialize_state_data = struct(
    uuid("topic_id"),
    array("partitions", struct(int32("partition"), int32("state_epoch"), int64("start_offset"))),
)
partition_result = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    83,
    "InitializeShareGroupState",
    versions="0",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", initialize_state_data)),
    response=struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result)))),
)
