"""LeaderAndIsr (API 4): the controller tells a broker which partitions it leads or follows (ZooKeeper mode, up to
3.9)."""

from kshark.schema import api, array, boolean, int8, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ControlRequestType, ErrorCode, LeaderRecoveryState

partition_state = struct(
    string("topic_name", versions="0-1"),
    int32("partition_index"),
    int32("controller_epoch"),
    int32("leader"),
    int32("leader_epoch"),
    array("isr", int32()),
    int32("partition_epoch"),
    array("replicas", int32()),
    array("adding_replicas", int32(), versions="3+"),
    array("removing_replicas", int32(), versions="3+"),
    boolean("is_new", versions="1+"),
    int8("leader_recovery_state", versions="6+", enum=LeaderRecoveryState),
)
topic_state = struct(
    string("topic_name"),
    uuid("topic_id", versions="5+", name_in="topic_name"),
    array("partition_states", partition_state),
)
partition_error = struct(
    string("topic_name", versions="0-4"),
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
)

DISSECTOR = api(
    4,
    "LeaderAndIsr",
    versions="0-7",
    flexible="4+",
    request=struct(
        int32("controller_id"),
        boolean("is_kraft_controller", versions="7+"),
        int32("controller_epoch"),
        int64("broker_epoch", versions="2+", default=-1),
        int8("type", versions="5+", enum=ControlRequestType),
        array("ungrouped_partition_states", partition_state, versions="0-1"),
        array("topic_states", topic_state, versions="2+"),
        array("live_leaders", struct(int32("broker_id"), string("host_name"), int32("port"))),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("partition_errors", partition_error, versions="0-4"),
        array("topics", struct(uuid("topic_id"), array("partition_errors", partition_error)), versions="5+"),
    ),
)
