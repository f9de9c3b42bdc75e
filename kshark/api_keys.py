"""Api keys of the few APIs that the engine itself looks into; all others it knows by their dissectors only. Source: Kafka's ApiKeys."""

from __future__ import annotations

from typing import Final

METADATA: Final = 3
API_VERSIONS: Final = 18
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
