"""Names of topics: those that are fixed, and the APIs that report the others."""

from typing import Final

#: The metadata topic has the same id in every cluster. Source: Uuid.METADATA_TOPIC_ID,
#: Topic.CLUSTER_METADATA_TOPIC_NAME.
TOPIC_NAMES: Final = {"AAAAAAAAAAAAAAAAAAAAAQ": "__cluster_metadata"}

#: APIs whose messages tell ids and names of topics side by side.
NAMING_APIS: Final = frozenset({3, 4, 6, 19, 20, 69, 75, 77, 90, 91, 92})
