"""AlterReplicaLogDirs (API 34): an administrator moves replicas to other directories of their broker."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

alter_replica_log_dir = struct(
    string("path"),
    array("topics", struct(string("name"), array("partitions", int32()))),
)
alter_replica_log_dir_topic_result = struct(
    string("topic_name"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    34,
    "AlterReplicaLogDirs",
    versions="0-2",
    flexible="2+",
    kip="KIP-113",
    request=struct(array("dirs", alter_replica_log_dir)),
    response=struct(int32("throttle_time_ms"), array("results", alter_replica_log_dir_topic_result)),
)
