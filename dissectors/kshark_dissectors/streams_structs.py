"""Structures that the APIs of Kafka Streams groups share (KIP-1071, KIP-1331)."""

from kshark.schema import array, int8, int16, int32, int64, named, string, struct, uint16
from kshark_dissectors.enums import TopologyNodeType

endpoint = struct(string("host"), uint16("port"))
key_value = struct(string("key"), string("value"))
task_ids = struct(string("subtopology_id"), array("partitions", int32()))
task_offset = struct(string("subtopology_id"), int32("partition"), int64("offset"))

#: An internal topic as the group wants it.
topic_info = struct(
    string("name"),
    int32("partitions"),
    int16("replication_factor"),
    array("topic_configs", key_value),
)

topology_node = struct(
    string("name"),
    int8("node_type", enum=TopologyNodeType),
    array("source_topics", string()),
    string("sink_topic", nullable="0+"),
    array("stores", string()),
    array("successors", string()),
)
topology_subtopology = struct(string("subtopology_id"), array("nodes", topology_node))
topology_global_store = struct(named("source", topology_node), named("processor", topology_node))

#: The graph that a member pushed for people to look at; assignments do not depend on it.
topology_description = struct(
    array("subtopologies", topology_subtopology),
    array("global_stores", topology_global_store),
)
