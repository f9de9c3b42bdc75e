"""ControlledShutdown (API 7): a broker asks the controller to take its leaderships away before it stops (up to 3.9)."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    7,
    "ControlledShutdown",
    versions="0-3",
    flexible="3+",
    request_header={0: 0},
    request=struct(int32("broker_id"), int64("broker_epoch", versions="2+", default=-1)),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("remaining_partitions", struct(string("topic_name"), int32("partition_index"))),
    ),
)
