"""DeleteRecords (API 21): an administrator drops the beginning of partitions."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

topic = struct(
    string("name"),
    array("partitions", struct(int32("partition_index"), int64("offset"))),
)
partition_result = struct(int32("partition_index"), int64("low_watermark"), int16("error_code", enum=ErrorCode))

DISSECTOR = api(
    21,
    "DeleteRecords",
    versions="0-2",
    flexible="2+",
    kip="KIP-107",
    request=struct(array("topics", topic), int32("timeout_ms")),
    response=struct(
        int32("throttle_time_ms"),
        array("topics", struct(string("name"), array("partitions", partition_result))),
    ),
)
