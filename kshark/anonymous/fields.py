"""Which strings of messages are names, and of what; all others become pseudonyms of texts."""

from __future__ import annotations

from typing import Final

from kshark.anonymous.pseudonyms import Kind

#: Kinds of names by the field that holds them, whatever message has it.
KIND_OF: Final[dict[str, Kind]] = {
    "client_host": "host",
    "client_id": "client",
    "cluster_id": "cluster",
    "entity_name": "principal",
    "group_id": "group",
    "group_ids": "group",
    "group_instance_id": "instance",
    "groups": "group",
    "groups_names": "group",
    "host": "host",
    "host_filter": "host",
    "host_name": "host",
    "instance_id": "instance",
    "leader": "member",
    "member_id": "member",
    "owner_principal_name": "principal",
    "principal": "principal",
    "principal_filter": "principal",
    "principal_name": "principal",
    "rack": "rack",
    "rack_id": "rack",
    "repartition_sink_topics": "topic",
    "sink_topic": "topic",
    "source_topics": "topic",
    "subscribed_topic_names": "topic",
    "token_requester_principal_name": "principal",
    "topic": "topic",
    "topic_name": "topic",
    "topic_names": "topic",
    "transactional_id": "transaction",
    "transactional_ids": "transaction",
    "user": "principal",
    "v0_host": "host",
    "v3_and_below_transactional_id": "transaction",
}
#: Kinds of the field `name`, by the field around it. Elsewhere it is a topic's.
KIND_OF_NAME: Final[dict[str, Kind]] = {
    "deletions": "principal",
    "leader_endpoints": "text",
    "listeners": "text",
    "nodes": "text",
    "processor": "text",
    "source": "text",
    "upsertions": "principal",
    "users": "principal",
}
#: Words of Kafka: they name no one.
KEPT: Final = frozenset(
    (
        *("assignor_name", "client_software_name", "client_software_version", "configuration_keys", "entity_type"),
        *("feature", "group_state", "group_type", "mechanism", "mechanisms", "owner_principal_type", "principal_type"),
        *("protocol_name", "protocol_type", "requested_metrics", "server_assignor", "state_filters", "states_filter"),
        *("token_requester_principal_type", "transaction_state", "types_filter", "unknown_state_filters"),
    )
)
#: Names of settings, features and protocols, by the field around `name`.
KEPT_NAMES: Final = frozenset(
    ("configs", "features", "finalized_features", "protocols", "supported_features", "synonyms")
)
#: Sentences of brokers, in which names become pseudonyms.
SENTENCES: Final = frozenset(
    ("acknowledge_error_message", "batch_index_error_message", "error_message", "status_detail")
)
#: Free text, which becomes empty.
DROPPED: Final = frozenset(("committed_metadata", "documentation", "metadata", "reason"))
#: Resources by their type: the name of a topic, a group, a transaction, a delegation token.
RESOURCES: Final[dict[int, Kind]] = {2: "topic", 3: "group", 5: "transaction", 32: "group"}
#: Keys of coordinators by their type.
COORDINATORS: Final[dict[int, Kind]] = {0: "group", 1: "transaction"}
#: The type of the key of a share coordinator: group, topic id and partition.
SHARE_KEY: Final = 2
#: How names of settings end whose value is the name of a topic.
TOPIC_SETTINGS: Final = ("topic.name",)
#: Values of settings that are kept: numbers, and words of Kafka.
KEPT_VALUE: Final = (
    r"-?\d+(\.\d+)?|true|false|compact|delete|compact,delete|CreateTime|LogAppendTime|earliest|latest|producer|"
    r"read_(un)?committed"
)
