"""ConsumerGroupDescribe (API 69): state, members and assignments of consumer groups of the new protocol."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct, uuid
from kshark_dissectors.enums import AclOperation, ErrorCode, MemberType

topic_partitions = struct(uuid("topic_id", name_in="topic_name"), string("topic_name"), array("partitions", int32()))
member = struct(
    string("member_id"),
    string("instance_id", nullable="0+"),
    string("rack_id", nullable="0+"),
    int32("member_epoch"),
    string("client_id"),
    string("client_host"),
    array("subscribed_topic_names", string()),
    string("subscribed_topic_regex", nullable="0+"),
    struct(array("topic_partitions", topic_partitions), name="assignment"),
    struct(array("topic_partitions", topic_partitions), name="target_assignment"),
    int8("member_type", versions="1+", default=-1, enum=MemberType),
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
    69,
    "ConsumerGroupDescribe",
    versions="0-1",
    flexible="0+",
    kip="KIP-848",
    request=struct(array("group_ids", string()), boolean("include_authorized_operations")),
    response=struct(int32("throttle_time_ms"), array("groups", described_group)),
)
