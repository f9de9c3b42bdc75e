"""ShareGroupHeartbeat (API 76): a member joins, stays in or leaves a share group."""

from kshark.schema import api, array, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    76,
    "ShareGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    kip="KIP-932",
    early_access="0",
    request=struct(
        string("group_id"),
        string("member_id"),
        int32("member_epoch", about="0 joins the group, -1 leaves it"),
        string("rack_id", nullable="0+"),
        array("subscribed_topic_names", string(), nullable="0+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        string("member_id", nullable="0+"),
        int32("member_epoch"),
        int32("heartbeat_interval_ms"),
        struct(
            array("topic_partitions", struct(uuid("topic_id"), array("partitions", int32()))),
            name="assignment",
            nullable="0+",
        ),
    ),
)
