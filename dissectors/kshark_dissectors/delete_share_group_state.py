"""DeleteShareGroupState (API 86): the group coordinator deletes the state of share partitions."""

from kshark.schema import api, array, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

delete_state_data = struct(uuid("topic_id"), array("partitions", struct(int32("partition"))))
partition_result = struct(
    int32("partition"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    86,
    "DeleteShareGroupState",
    versions="0",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", delete_state_data)),
    response=struct(array("results", struct(uuid("topic_id"), array("partitions", partition_result)))),
)
