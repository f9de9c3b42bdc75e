"""Heartbeat (API 12): a member of a classic consumer group says that it lives."""

from kshark.schema import api, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    12,
    "Heartbeat",
    versions="0-4",
    flexible="4+",
    request=struct(
        string("group_id"),
        int32("generation_id"),
        string("member_id"),
        string("group_instance_id", versions="3+", nullable="3+"),
    ),
    response=struct(int32("throttle_time_ms", versions="1+"), int16("error_code", enum=ErrorCode)),
)
