"""StreamsGroupDescribe (API 89): state, members, tasks and topology of Kafka Streams groups."""

from kshark.schema import api, array, boolean, int8, int16, int32, named, string, struct
from kshark_dissectors.enums import AclOperation, ErrorCode, TopologyDescriptionStatus
from kshark_dissectors.streams_structs import (
    endpoint,
    key_value,
    task_ids,
    task_offset,
    topic_info,
    topology_description,
)

subtopology = struct(
    string("subtopology_id"),
    array("source_topics", string()),
    array("repartition_sink_topics", string()),
    array("state_changelog_topics", topic_info),
    array("repartition_source_topics", topic_info),
)
assignment = struct(
    array("active_tasks", task_ids),
    array("standby_tasks", task_ids),
    array("warmup_tasks", task_ids),
)
member = struct(
    string("member_id"),
    int32("member_epoch"),
    string("instance_id", nullable="0+"),
    string("rack_id", nullable="0+"),
    string("client_id"),
    string("client_host"),
    int32("topology_epoch"),
    string("process_id"),
    named("user_endpoint", endpoint, nullable="0+"),
    array("client_tags", key_value),
    array("task_offsets", task_offset),
    array("task_end_offsets", task_offset),
    named("assignment", assignment),
    named("target_assignment", assignment),
    boolean("is_classic"),
)
described_group = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    string("group_id"),
    string("group_state"),
    int32("group_epoch"),
    int32("assignment_epoch"),
    struct(int32("epoch"), array("subtopologies", subtopology, nullable="0+"), name="topology", nullable="0+"),
    array("members", member),
    int32("authorized_operations", default=-2147483648, enum=AclOperation, bits=True),
    named("topology_description", topology_description, versions="1+", nullable="1+"),
    int8("topology_description_status", versions="1+", enum=TopologyDescriptionStatus),
    string("assignor_name", versions="1+", nullable="1+"),
)

DISSECTOR = api(
    89,
    "StreamsGroupDescribe",
    versions="0-1",
    flexible="0+",
    kip="KIP-1071",
    request=struct(
        array("group_ids", string()),
        boolean("include_authorized_operations"),
        boolean("include_topology_description", versions="1+"),
    ),
    response=struct(int32("throttle_time_ms"), array("groups", described_group)),
)
