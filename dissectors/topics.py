"""Kafka's own topics that are known without being told."""

from typing import Final

#: The metadata topic has the same id in every cluster. Source: Uuid.METADATA_TOPIC_ID, Topic.CLUSTER_METADATA_TOPIC_NAME.
TOPIC_NAMES: Final = {"AAAAAAAAAAAAAAAAAAAAAQ": "__cluster_metadata"}
