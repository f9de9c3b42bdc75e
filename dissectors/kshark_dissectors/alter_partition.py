"""AlterPartition (API 56): a partition leader asks the controller to change its in-sync replicas."""

from kshark.schema import api, array, int8, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode, LeaderRecoveryState

partition_data = struct(
    int32("partition_index"),
    int32("leader_epoch"),
    array("new_isr", int32(), versions="0-2"),
    array("new_isr_with_epochs", struct(int32("broker_id"), int64("broker_epoch", default=-1)), versions="3+"),
    int8("leader_recovery_state", versions="1+", enum=LeaderRecoveryState),
    int32("partition_epoch"),
)
topic_data = struct(
    string("topic_name", versions="0-1"),
    uuid("topic_id", versions="2+"),
    array("partitions", partition_data),
)
partition_data_response = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    int32("leader_id"),
    int32("leader_epoch"),
    array("isr", int32()),
    int8("leader_recovery_state", versions="1+", enum=LeaderRecoveryState),
    int32("partition_epoch"),
)
topic_data_response = struct(
    string("topic_name", versions="0-1"),
    uuid("topic_id", versions="2+"),
    array("partitions", partition_data_response),
)

DISSECTOR = api(
    56,
    "AlterPartition",
    versions="0-3",
    flexible="0+",
    kip="KIP-497",
    request=struct(int32("broker_id"), int64("broker_epoch", default=-1), array("topics", topic_data)),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        array("topics", topic_data_response),
    ),
)
