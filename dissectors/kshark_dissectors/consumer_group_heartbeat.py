"""ConsumerGroupHeartbeat (API 68): a member joins, stays in or leaves a consumer group of the new protocol."""

from kshark.schema import api, array, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

topic_partitions = struct(uuid("topic_id"), array("partitions", int32()))

DISSECTOR = api(
    68,
    "ConsumerGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    kip="KIP-848",
    request=struct(
        string("group_id"),
        string("member_id"),
        int32("member_epoch", about="0 joins the group, -1 leaves it, -2 leaves it for a while (static member)"),
        string("instance_id", nullable="0+"),
        string("rack_id", nullable="0+"),
        int32("rebalance_timeout_ms", default=-1),
        array("subscribed_topic_names", string(), nullable="0+"),
        string("subscribed_topic_regex", versions="1+", nullable="1+"),
        string("server_assignor", nullable="0+"),
        array("topic_partitions", struct(uuid("topic_id"), array("partitions", int32())), nullable="0+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        string("member_id", nullable="0+"),
        int32("member_epoch"),
        int32("heartbeat_interval_ms"),
        struct(array("topic_partitions", topic_partitions), name="assignment", nullable="0+"),
    ),
)
