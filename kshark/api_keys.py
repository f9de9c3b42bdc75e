"""Api keys of the few APIs that the engine itself looks into; all others it knows by their dissectors only. Source: Kafka's ApiKeys."""

from __future__ import annotations

from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
HEARTBEAT: Final = 12
API_VERSIONS: Final = 18
FETCH_SNAPSHOT: Final = 59
CONSUMER_GROUP_HEARTBEAT: Final = 68
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
INITIALIZE_SHARE_GROUP_STATE: Final = 83
READ_SHARE_GROUP_STATE: Final = 84
WRITE_SHARE_GROUP_STATE: Final = 85
DELETE_SHARE_GROUP_STATE: Final = 86
READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
