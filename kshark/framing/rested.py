"""Connections that were forgotten between two messages. When one continues, its service and boundary stay known."""

from __future__ import annotations

from kshark import limits
from kshark.framing.judgement import Conversation
from kshark.framing.streams import RequestLimit
from kshark.model import Flow
from kshark.ring import Ring


class Rested:
    """The client side of each such connection, by the number of its flow."""

    def __init__(self, most: RequestLimit) -> None:
        self._most = most
        self._client = Ring("b", limits.REMEMBERED_FLOWS)

    def leave(self, conversation: Conversation) -> None:
        """Keep a connection that is forgotten. Decrypted ones are not kept: they need the state of their keys."""
        flow = conversation.flow
        if flow.tls is None and flow.client_side is not None and all(stream.rests for stream in conversation.streams):
            self._client.put(flow.id, flow.client_side)

    def resume(self, flow: Flow) -> Conversation | None:
        """Return the conversation of a flow that continues a kept connection; None for any other flow."""
        entry = None if flow.continues is None else self._client.take(flow.continues)
        if entry is None:
            return None
        conversation = Conversation(flow, self._most)
        conversation.settle(1 if entry[0] else 0)
        return conversation
