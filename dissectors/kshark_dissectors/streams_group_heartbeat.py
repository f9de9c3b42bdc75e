"""StreamsGroupHeartbeat (API 88): a member joins, stays in or leaves a Kafka Streams group."""

from kshark.schema import api, array, boolean, int8, int16, int32, int64, named, string, struct
from kshark_dissectors.enums import ErrorCode, StreamsStatus
from kshark_dissectors.streams_structs import endpoint, key_value, task_ids, task_offset, topic_info

copartition_group = struct(
    array("source_topics", int16()),
    array("source_topic_regex", int16()),
    array("repartition_source_topics", int16()),
)
subtopology = struct(
    string("subtopology_id"),
    array("source_topics", string()),
    array("source_topic_regex", string()),
    array("state_changelog_topics", topic_info),
    array("repartition_sink_topics", string()),
    array("repartition_source_topics", topic_info),
    array("copartition_groups", copartition_group),
)
status = struct(int8("status_code", enum=StreamsStatus), string("status_detail"))
topic_partition = struct(string("topic"), array("partitions", int32()))
endpoint_to_partitions = struct(
    named("user_endpoint", endpoint),
    array("active_partitions", topic_partition),
    array("standby_partitions", topic_partition),
)

DISSECTOR = api(
    88,
    "StreamsGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    kip="KIP-1071",
    request=struct(
        string("group_id"),
        string("member_id"),
        int32("member_epoch", about="0 joins the group, -1 leaves it, -2 leaves it for a while (static member)"),
        int32("endpoint_information_epoch"),
        string("instance_id", nullable="0+"),
        string("rack_id", nullable="0+"),
        int32("rebalance_timeout_ms", default=-1),
        struct(int32("epoch"), array("subtopologies", subtopology), name="topology", nullable="0+"),
        array("active_tasks", task_ids, nullable="0+"),
        array("standby_tasks", task_ids, nullable="0+"),
        array("warmup_tasks", task_ids, nullable="0+"),
        string("process_id", nullable="0+"),
        named("user_endpoint", endpoint, nullable="0+"),
        array("client_tags", key_value, nullable="0+"),
        array("task_offsets", task_offset, nullable="0+"),
        array("task_end_offsets", task_offset, nullable="0+"),
        boolean("shutdown_application"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        string("member_id"),
        int32("member_epoch"),
        int32("heartbeat_interval_ms"),
        int32("acceptable_recovery_lag_legacy", versions="0"),
        int32("task_offset_interval_ms"),
        int64("acceptable_recovery_lag", versions="1+", default=-1),
        array("status", status, nullable="0+"),
        array("active_tasks", task_ids, nullable="0+"),
        array("standby_tasks", task_ids, nullable="0+"),
        array("warmup_tasks", task_ids, nullable="0+"),
        boolean("topology_description_required", versions="1+"),
        int32("endpoint_information_epoch"),
        array("partitions_by_user_endpoint", endpoint_to_partitions, nullable="0+"),
    ),
)
