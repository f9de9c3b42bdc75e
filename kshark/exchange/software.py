"""How clients may call themselves (KIP-511; Kafka: ApiVersionsRequest.isValid)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_TAKEN: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")
#: Characters of a name that are told.
_SHOWN: Final = 40


@lru_cache(maxsize=64)
def misnamed(name: str, version: str) -> str:
    """Which of both brokers do not take, and how it is written; nothing where they take both."""
    wrong = {what: text for what, text in (("name", name), ("version", version)) if not _TAKEN.fullmatch(text)}
    return ", ".join(f"{what} {text[:_SHOWN]!r}" for what, text in wrong.items())
