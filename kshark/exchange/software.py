"""Names and versions that clients may give to themselves (KIP-511; Kafka: ApiVersionsRequest.isValid)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_ACCEPTED: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
#: Characters of a name that are shown.
_SHOWN: Final = 40


@lru_cache(maxsize=64)
def misnamed(name: str, version: str) -> str:
    """Return the name, the version or both, with their text, if brokers do not accept them; else the empty text."""
    wrong = {field: text for field, text in (("name", name), ("version", version)) if not _ACCEPTED.fullmatch(text)}
    return ", ".join(f"{field} {text[:_SHOWN]!r}" for field, text in wrong.items())
