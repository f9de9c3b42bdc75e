"""SyncGroup (API 14): the leader of a classic consumer group hands out the assignment, every member takes its own."""

from kshark.schema import api, array, bytes_, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    14,
    "SyncGroup",
    versions="0-5",
    flexible="4+",
    request=struct(
        string("group_id"),
        int32("generation_id"),
        string("member_id"),
        string("group_instance_id", versions="3+", nullable="3+"),
        string("protocol_type", versions="5+", nullable="5+"),
        string("protocol_name", versions="5+", nullable="5+"),
        array("assignments", struct(string("member_id"), bytes_("assignment"))),
    ),
    response=struct(
        int32("throttle_time_ms", versions="1+"),
        int16("error_code", enum=ErrorCode),
        string("protocol_type", versions="5+", nullable="5+"),
        string("protocol_name", versions="5+", nullable="5+"),
        bytes_("assignment"),
    ),
)
