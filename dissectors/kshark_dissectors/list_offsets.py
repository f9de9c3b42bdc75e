"""ListOffsets (API 2): the offset that belongs to a timestamp, or to the beginning or end of a partition."""

from kshark.schema import api, array, int8, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode, IsolationLevel, SpecialTimestamp

partition = struct(
    int32("partition_index"),
    int32("current_leader_epoch", versions="4+", default=-1),
    int64("timestamp", enum=SpecialTimestamp),
    int32("max_num_offsets", versions="0", default=1),
)
partition_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    array("old_style_offsets", int64(), versions="0"),
    int64("timestamp", versions="1+", default=-1),
    int64("offset", versions="1+", default=-1),
    int32("leader_epoch", versions="4+", default=-1),
)

DISSECTOR = api(
    2,
    "ListOffsets",
    versions="0-11",
    flexible="6+",
    request=struct(
        int32("replica_id"),
        int8("isolation_level", versions="2+", enum=IsolationLevel),
        array("topics", struct(string("name"), array("partitions", partition))),
        int32("timeout_ms", versions="10+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="2+"),
        array("topics", struct(string("name"), array("partitions", partition_response))),
    ),
)
