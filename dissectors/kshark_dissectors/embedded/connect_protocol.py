"""The protocol of Kafka Connect's workers: versions 0 (eager), 1 (compatible, KIP-415) and 2 (sessioned, KIP-507, laid
out as 1).

Kafka: ConnectProtocol, IncrementalCooperativeConnectProtocol.
"""

from kshark.places import OpaqueField, Structure
from kshark.schema import array, bytes_, int16, int32, int64, layout, string, struct

connector_tasks = struct(
    string("connector"),
    array("tasks", int32(), about="-1 is the connector itself"),
)

CONNECT_ASSIGNMENT = layout(
    "ConnectAssignment",
    versions="0-2",
    flexible="none",
    fields=struct(
        int16("error", about="1: the configurations that the workers have read differ"),
        string("leader"),
        string("leader_url"),
        int64("config_offset"),
        array("assignment", connector_tasks, nullable="1+"),
        array("revoked", connector_tasks, versions="1+", nullable="1+"),
        int32("delay", versions="1+", about="milliseconds until the tasks of a worker that left are handed out"),
    ),
)

CONNECT_METADATA = layout(
    "ConnectMetadata",
    versions="0-2",
    flexible="none",
    fields=struct(
        string("url"),
        int64("config_offset"),
        bytes_("allocation", versions="1+", nullable="1+", about="the assignment that the worker has now"),
    ),
)

ASSIGNMENT = Structure(CONNECT_ASSIGNMENT)
METADATA = Structure(CONNECT_METADATA, inside=(OpaqueField("allocation", {"": ASSIGNMENT}),))
