"""AssignReplicasToDirs (API 73): a broker tells the controller which directories hold its replicas."""

from kshark.schema import api, array, int16, int32, int64, struct, uuid
from kshark_dissectors.enums import ErrorCode

topic_data = struct(uuid("topic_id"), array("partitions", struct(int32("partition_index"))))
topic_data_response = struct(
    uuid("topic_id"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    73,
    "AssignReplicasToDirs",
    versions="0",
    flexible="0+",
    kip="KIP-858",
    request=struct(
        int32("broker_id"),
        int64("broker_epoch", default=-1),
        array("directories", struct(uuid("id"), array("topics", topic_data))),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        array("directories", struct(uuid("id"), array("topics", topic_data_response))),
    ),
)
