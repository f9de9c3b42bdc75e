"""The life of topics as far as it concerns operations: a deleted topic needs no deletion of its share state.

The share coordinator drops the state of a deleted topic itself, and the group coordinator forgets the topic: the
deletion of a group then sends no request for it. Source: KIP-932; Kafka: ShareCoordinatorService.onTopicsDeleted,
GroupMetadataManager.shareGroupBuildPartitionDeleteRequest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark import limits
from kshark.analysis.states.operations.listing import Operation
from kshark.api_keys import CREATE_TOPICS, DELETE_TOPICS, ENVELOPE, METADATA
from kshark.codec import DECODED
from kshark.model import Exchange, Message

#: APIs that show topics with their ids.
TOPIC_APIS: Final = frozenset({METADATA, CREATE_TOPICS, DELETE_TOPICS, ENVELOPE})
#: The id that means "no topic". Kafka: Uuid.ZERO_UUID.
_NO_ID: Final = "A" * 22


class Topics:
    """Topics by id: the time of their deletion, and the last packet that shows them.

    Only needed against a claim; thus bodies may be unreliable, and an operation's own packets may come earlier.
    """

    def __init__(self) -> None:
        #: The last id of a name.
        self._ids: dict[str, str] = {}
        #: The time of the request that deleted a topic, or of the first message with a later topic of its name.
        self._deleted: dict[str, int] = {}
        self._seen: dict[str, int] = {}

    def feed(self, exchange: Exchange) -> None:
        """Take an exchange of one of TOPIC_APIS."""
        request, response = exchange.request, exchange.response
        if request is None or response is None:
            return
        api_key, body = _opened(response) if request.api_key == ENVELOPE else (request.api_key, response.body)
        if api_key == DELETE_TOPICS:
            for name, topic_id in _accepted(body, "responses"):
                self._delete(self._ids.get(name or "") if topic_id is None else topic_id, request.time_ns)
            return
        for name, topic_id in _accepted(body, "topics") if api_key in TOPIC_APIS else ():
            if topic_id is not None:
                self.see(topic_id, request.packet)
                if name is not None:
                    self._name(name, topic_id, response.time_ns)

    def see(self, topic_id: str, packet: int) -> None:
        """Note that a request of that packet met the topic."""
        if topic_id in self._seen or len(self._seen) < limits.TOPICS:
            self._seen[topic_id] = max(packet, self._seen.get(topic_id, 0))

    def is_gone(self, topic_id: str | None, by_ns: int) -> bool:
        """True if the topic's deletion began by that time."""
        return self._deleted.get(topic_id or "", by_ns + 1) <= by_ns

    def outlived(self, topic_id: str | None, operation: Operation) -> bool:
        """True if the topic existed after the answer to an operation."""
        return self._seen.get(topic_id or "", 0) > (operation.answer_packet or operation.packet)

    def _name(self, name: str, topic_id: str, time_ns: int) -> None:
        before = self._ids.get(name)
        if before is not None and before != topic_id and topic_id not in self._deleted:
            self._delete(before, time_ns)
        if before is not None or len(self._ids) < limits.TOPICS:
            self._ids[name] = topic_id

    def _delete(self, topic_id: str | None, time_ns: int) -> None:
        if topic_id is not None and len(self._deleted) < limits.TOPICS:
            self._deleted.setdefault(topic_id, time_ns)


def _opened(response: Message) -> tuple[Any, Any]:
    """Return the API key and the body of the controller's response, which a broker forwards (KIP-590)."""
    opened = getattr(response.body, "response_data" + DECODED, None)
    return (opened.get("api_key"), opened.get("body")) if isinstance(opened, dict) else (None, None)


def _accepted(body: Any, field: str) -> Iterator[tuple[str | None, str | None]]:
    """Yield the name and the id of each topic without an error; None for a missing one."""
    for topic in _field(body, field) or ():
        if _field(topic, "error_code") == 0:
            yield _text(topic, "name"), _text(topic, "topic_id")


def _text(topic: Any, field: str) -> str | None:
    text = _field(topic, field)
    return text if isinstance(text, str) and text != _NO_ID else None


def _field(owner: Any, field: str) -> Any:
    """Return a field; bodies inside other messages are dictionaries."""
    return owner.get(field) if isinstance(owner, dict) else getattr(owner, field, None)
