"""StopReplica (API 5): the controller tells a broker to give up replicas (ZooKeeper mode, up to 3.9)."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

partition_state = struct(int32("partition_index"), int32("leader_epoch", default=-1), boolean("delete_partition"))
partition_error = struct(string("topic_name"), int32("partition_index"), int16("error_code", enum=ErrorCode))

DISSECTOR = api(
    5,
    "StopReplica",
    versions="0-4",
    flexible="2+",
    request=struct(
        int32("controller_id"),
        boolean("is_kraft_controller", versions="4+"),
        int32("controller_epoch"),
        int64("broker_epoch", versions="1+", default=-1),
        boolean("delete_partitions", versions="0-2"),
        array("ungrouped_partitions", struct(string("topic_name"), int32("partition_index")), versions="0"),
        array("topics", struct(string("name"), array("partition_indexes", int32())), versions="1-2"),
        array("topic_states", struct(string("topic_name"), array("partition_states", partition_state)), versions="3+"),
    ),
    response=struct(int16("error_code", enum=ErrorCode), array("partition_errors", partition_error)),
)
