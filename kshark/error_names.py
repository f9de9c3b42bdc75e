"""The names of Kafka's error codes, by number."""

from __future__ import annotations

from typing import Final

from kshark_dissectors.enums import ErrorCode

ERROR_NAMES: Final[dict[int, str]] = {error.value: error.name for error in ErrorCode}
