"""CreateTopics (API 19): an administrator creates topics."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ConfigSource, ErrorCode
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

creatable_topic = struct(
    string("name"),
    int32("num_partitions"),
    int16("replication_factor"),
    array("assignments", struct(int32("partition_index"), array("broker_ids", int32()))),
    array("configs", struct(string("name"), string("value", nullable="0+", secret=SENSITIVE_CONFIG))),
)
creatable_topic_configs = struct(
    string("name"),
    string("value", nullable="5+", secret=SENSITIVE_CONFIG),
    boolean("read_only"),
    int8("config_source", default=-1, enum=ConfigSource),
    boolean("is_sensitive"),
)
creatable_topic_result = struct(
    string("name"),
    uuid("topic_id", versions="7+", name_in="name"),
    int16("error_code", enum=ErrorCode),
    string("error_message", versions="1+", nullable="1+"),
    int16("topic_config_error_code", versions="5+", tag=0, enum=ErrorCode),
    int32("num_partitions", versions="5+", default=-1),
    int16("replication_factor", versions="5+", default=-1),
    array("configs", creatable_topic_configs, versions="5+", nullable="5+"),
)

DISSECTOR = api(
    19,
    "CreateTopics",
    versions="0-7",
    flexible="5+",
    kip="KIP-4",
    request=struct(
        array("topics", creatable_topic),
        int32("timeout_ms", default=60000),
        boolean("validate_only", versions="1+"),
    ),
    response=struct(int32("throttle_time_ms", versions="2+"), array("topics", creatable_topic_result)),
)
