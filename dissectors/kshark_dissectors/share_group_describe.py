"""ShareGroupDescribe (API 77): state, members and assignments of share groups."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uuid
from kshark_dissectors.enums import AclOperation, ErrorCode

member = struct(
    string("member_id"),
    string("rack_id", nullable="0+"),
    int32("member_epoch"),
    string("client_id"),
    string("client_host"),
    array("subscribed_topic_names", string()),
    struct(
        array(
            "topic_partitions",
            struct(uuid("topic_id", name_in="topic_name"), string("topic_name"), array("partitions", int32())),
        ),
        name="assignment",
    ),
)
described_group = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    string("group_id"),
    string("group_state"),
    int32("group_epoch"),
    int32("assignment_epoch"),
    string("assignor_name"),
    array("members", member),
    int32("authorized_operations", default=-2147483648, enum=AclOperation, bits=True),
)

DISSECTOR = api(
    77,
    "ShareGroupDescribe",
    versions="0-1",
    flexible="0+",
    kip="KIP-932",
    early_access="0",
    request=struct(array("group_ids", string()), boolean("include_authorized_operations")),
    response=struct(int32("throttle_time_ms"), array("groups", described_group)),
)
