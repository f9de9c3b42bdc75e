"""OffsetForLeaderEpoch (API 23): where an epoch of a leader ended, so that a follower or consumer can cut off what
diverged."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

offset_for_leader_partition = struct(
    int32("partition"),
    int32("current_leader_epoch", versions="2+", default=-1),
    int32("leader_epoch"),
)
epoch_end_offset = struct(
    int16("error_code", enum=ErrorCode),
    int32("partition"),
    int32("leader_epoch", versions="1+", default=-1),
    int64("end_offset", default=-1),
)

DISSECTOR = api(
    23,
    "OffsetForLeaderEpoch",
    versions="0-4",
    flexible="4+",
    kip="KIP-101",
    request=struct(
        int32("replica_id", versions="3+", default=-2),
        array("topics", struct(string("topic"), array("partitions", offset_for_leader_partition))),
    ),
    response=struct(
        int32("throttle_time_ms", versions="2+"),
        array("topics", struct(string("topic"), array("partitions", epoch_end_offset))),
    ),
)
