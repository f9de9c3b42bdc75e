"""Connections that were forgotten between two of their messages: when one goes on, neither its service nor a boundary
is searched anew."""

from __future__ import annotations

from kshark import limits
from kshark.framing.judgement import Conversation
from kshark.model import Flow
from kshark.ring import Ring


class Rested:
    """The client side of each, by the number of its flow."""

    def __init__(self) -> None:
        self._client = Ring("b", limits.REMEMBERED_FLOWS)

    def leave(self, conversation: Conversation) -> None:
        """The connection is forgotten. What is decrypted needs its keys' state to go on."""
        flow = conversation.flow
        if flow.tls is None and flow.client_side is not None and all(stream.rests for stream in conversation.streams):
            self._client.put(flow.id, flow.client_side)

    def go_on(self, flow: Flow) -> Conversation | None:
        """The conversation of a flow that continues one of these; None for any other."""
        known = None if flow.continues is None else self._client.take(flow.continues)
        if known is None:
            return None
        conversation = Conversation(flow)
        conversation.settle(1 if known[0] else 0)
        return conversation
