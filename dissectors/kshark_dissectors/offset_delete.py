"""OffsetDelete (API 47): an administrator deletes committed offsets of a group."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

request_topic = struct(string("name"), array("partitions", struct(int32("partition_index"))))
response_topic = struct(
    string("name"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    47,
    "OffsetDelete",
    versions="0",
    flexible="none",
    kip="KIP-496",
    request=struct(string("group_id"), array("topics", request_topic)),
    response=struct(
        int16("error_code", enum=ErrorCode),
        int32("throttle_time_ms"),
        array("topics", response_topic),
    ),
)
