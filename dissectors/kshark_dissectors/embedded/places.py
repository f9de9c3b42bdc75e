"""Where Kafka's structures lie inside bytes: by API key and direction, and by the internal topic whose records they
are."""

from typing import Final

from kshark.places import Foreign, Place, Whole
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
    (0, "request"): (Place("topic_data.partition_data.records", LOGS, by=("name", "topic_id"), control=CONTROL),),
    (1, "response"): (Place("responses.partitions.records", LOGS, by=("topic", "topic_id"), control=CONTROL),),
    (11, "request"): (Place("protocols.metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "name"}),),
    (11, "response"): (
        Place("members.metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "protocol_name"}),
    ),
    (14, "request"): (Place("assignments.assignment", ASSIGNMENTS, by=("protocol_type",)),),
    (14, "response"): (Place("assignment", ASSIGNMENTS, by=("protocol_type",)),),
    (15, "response"): (
        Place(
            "groups.members.member_metadata", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "protocol_data"}
        ),
        Place("groups.members.member_assignment", ASSIGNMENTS, by=("protocol_type",)),
    ),
    (58, "request"): (
        Place("request_data", {"": Whole("request")}),
        Place("request_principal", {"": PRINCIPAL}, certain=False),
    ),
    (58, "response"): (Place("response_data", {"": Whole("response", of="request_data")}),),
    (59, "response"): (Place("topics.partitions.unaligned_records", LOGS, by=("name",), control=CONTROL),),
    (72, "request"): (Place("metrics", {"": Foreign("otlp", compression="compression_type")}),),
    (78, "response"): (Place("responses.partitions.records", LOGS, by=("topic_id",), control=CONTROL),),
}
