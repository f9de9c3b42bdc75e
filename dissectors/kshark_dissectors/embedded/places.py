"""Where Kafka's structures lie inside bytes: by API key and direction, and by the internal topic whose records they
are."""

from typing import Final

from kshark.places import Foreign, OpaqueField, Whole
from kshark_dissectors.embedded.cluster_metadata import CLUSTER_METADATA
from kshark_dissectors.embedded.consumer_offsets import CONSUMER_OFFSETS
from kshark_dissectors.embedded.control_records import CONTROL
from kshark_dissectors.embedded.group_protocols import ASSIGNMENTS, SUBSCRIPTIONS
from kshark_dissectors.embedded.principal import PRINCIPAL
from kshark_dissectors.embedded.remote_log_metadata import REMOTE_LOG_METADATA
from kshark_dissectors.embedded.share_group_state import SHARE_GROUP_STATE
from kshark_dissectors.embedded.transaction_state import TRANSACTION_STATE

#: Kafka: Topic, and TopicBasedRemoteLogMetadataManagerConfig.
LOGS: Final = {
    "__consumer_offsets": CONSUMER_OFFSETS,
    "__transaction_state": TRANSACTION_STATE,
    "__share_group_state": SHARE_GROUP_STATE,
    "__cluster_metadata": CLUSTER_METADATA,
    "__remote_log_metadata": REMOTE_LOG_METADATA,
}

PLACES: Final = {
    (0, "request"): (OpaqueField("topic_data.partition_data.records", LOGS, by=("name", "topic_id"), control=CONTROL),),
    (1, "response"): (OpaqueField("responses.partitions.records", LOGS, by=("topic", "topic_id"), control=CONTROL),),
    (11, "request"): (
        OpaqueField("protocols.metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "name"}),
    ),
    (11, "response"): (
        OpaqueField("members.metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "protocol_name"}),
    ),
    (14, "request"): (OpaqueField("assignments.assignment", ASSIGNMENTS, by=("protocol_type",)),),
    (14, "response"): (OpaqueField("assignment", ASSIGNMENTS, by=("protocol_type",)),),
    (15, "response"): (
        OpaqueField(
            "groups.members.member_metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "protocol_data"}
        ),
        OpaqueField("groups.members.member_assignment", ASSIGNMENTS, by=("protocol_type",)),
    ),
    (58, "request"): (
        OpaqueField("request_data", {"": Whole("request")}),
        OpaqueField("request_principal", {"": PRINCIPAL}, certain=False),
    ),
    (58, "response"): (OpaqueField("response_data", {"": Whole("response", of="request_data")}),),
    (59, "response"): (OpaqueField("topics.partitions.unaligned_records", LOGS, by=("name",), control=CONTROL),),
    (72, "request"): (OpaqueField("metrics", {"": Foreign("otlp", compression="compression_type")}),),
    (78, "response"): (OpaqueField("responses.partitions.records", LOGS, by=("topic_id",), control=CONTROL),),
}
