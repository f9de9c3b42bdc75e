"""Messages as `kshark.read` yields them: a part that a message lacks is None. Inside, it is UNSET, which costs nothing
where messages are made and leaves the key out of the JSON line.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, overload

from msgspec import UNSET

from kshark.model import Kind, Message

T = TypeVar("T")


class _Part(Generic[T]):
    """A part of the message, by its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._get = attrgetter(f"message.{name}")

    @overload
    def __get__(self, listed: None, owner: type) -> _Part[T]: ...
    @overload
    def __get__(self, listed: ListedMessage, owner: type) -> T: ...
    def __get__(self, listed: ListedMessage | None, owner: type) -> T | _Part[T]:
        if listed is None:
            return self
        value: T = self._get(listed)
        return None if value is UNSET else value  # type: ignore[return-value]  # parts that may be UNSET have None in T

    def __set__(self, listed: ListedMessage, value: T) -> None:
        raise AttributeError("the parts of a message cannot be set")


class ListedMessage:
    """One request or response. Its attributes are the keys of the JSON line (`kshark read -T json`); one that the line
    does not have is None. `client_id` is also None if the client has no name.
    """

    __slots__ = ("message",)
    __hash__ = None  # type: ignore[assignment]  # bodies are mutable

    packet = _Part[int]()
    packets = _Part[tuple[int, int] | None]()
    time_ns = _Part[int]()
    flow = _Part[int]()
    client = _Part[str]()
    broker = _Part[str]()
    kind = _Part[Kind]()
    api_key = _Part[int | None]()
    api = _Part[str | None]()
    version = _Part[int | None]()
    correlation_id = _Part[int | None]()
    client_id = _Part[str | None]()
    request_packet = _Part[int | None]()
    latency_ns = _Part[int | None]()
    size = _Part[int]()
    #: Plain values under Kafka's names in snake_case; None: it has none that can be read.
    body = _Part[Any]()
    weird = _Part[list[str] | None]()
    detail = _Part[str | None]()
    file = _Part[str | None]()
    frame = _Part[int | None]()
    group_id = _Part[str | None]()
    member_id = _Part[str | None]()
    proxy = _Part[str | None]()

    def __init__(self, message: Message) -> None:
        self.message: Final = message

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the JSON line, with plain values. Bytes stay bytes, which are base64 there."""
        return self.message.to_dict()

    def __eq__(self, other: object) -> bool:
        return self.message == other.message if isinstance(other, ListedMessage) else NotImplemented

    def __repr__(self) -> str:
        return repr(self.message)
