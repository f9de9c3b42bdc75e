"""Fields of `-e` and `-Y` that are attributes of a message: reading them needs no schema."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from msgspec import UNSET

from kshark.model import Message

#: Every occurrence of a field in a message, in wire order.
Values = Callable[[Message], list[Any]]

ATTRIBUTES: Final = {
    "frame.number": "packet",
    "kafka.client": "client",
    "kafka.proxy": "proxy",
    "kafka.flow": "flow",
    "kafka.len": "size",
    "kafka.api_key": "api_key",
    "kafka.api": "api",
    "kafka.api_version": "version",
    "kafka.correlation_id": "correlation_id",
    "kafka.client_id": "client_id",
}


class Attribute:
    """Reader of one attribute of the message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._get = attrgetter(name)

    def __call__(self, message: Message) -> list[Any]:
        value = self._get(message)
        return [] if value is UNSET else [value]
