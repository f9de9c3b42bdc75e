"""DescribeLogDirs (API 35): how much each directory of a broker holds."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

partition = struct(
    int32("partition_index"),
    int64("partition_size"),
    int64("offset_lag"),
    boolean("is_future_key"),
)
result = struct(
    int16("error_code", enum=ErrorCode),
    string("log_dir"),
    array("topics", struct(string("name"), array("partitions", partition))),
    int64("total_bytes", versions="4+", default=-1),
    int64("usable_bytes", versions="4+", default=-1),
    boolean("is_cordoned", versions="5+"),
)

DISSECTOR = api(
    35,
    "DescribeLogDirs",
    versions="0-5",
    flexible="2+",
    kip="KIP-113",
    request=struct(array("topics", struct(string("topic"), array("partitions", int32())), nullable="0+")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", versions="3+", enum=ErrorCode),
        array("results", result),
    ),
)
