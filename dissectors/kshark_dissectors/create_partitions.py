"""CreatePartitions (API 37): an administrator adds partitions to topics."""

from kshark.schema import api, array, boolean, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

topic = struct(
    string("name"),
    int32("count"),
    array("assignments", struct(array("broker_ids", int32())), nullable="0+"),
)
topic_result = struct(string("name"), int16("error_code", enum=ErrorCode), string("error_message", nullable="0+"))

DISSECTOR = api(
    37,
    "CreatePartitions",
    versions="0-3",
    flexible="2+",
    kip="KIP-195",
    request=struct(array("topics", topic), int32("timeout_ms"), boolean("validate_only")),
    response=struct(int32("throttle_time_ms"), array("results", topic_result)),
)
