"""Choose the packets of messages: whole messages with their answers, and what a reader needs to understand them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET

from kshark.capture.selection import Selection
from kshark.model import Closed, Ends, Event, Exchange, Flow, Message, Opened

#: Flow, packet, correlation id and kind of a message.
_Key = tuple[int, int, object, str]


class MessagePackets:
    """Takes pages, and chooses the packets of the messages that pass, of their answers and of their requests.

    A connection's opening is chosen, too; of connections with TLS or a PROXY header everything up to the message, since
    their bytes cannot be read without it. `most`: only so many messages, None for all; their answers are awaited.
    """

    def __init__(self, passing: Callable[[list[Message]], list[Message]], most: int | None = None) -> None:
        self.selection = Selection(handshakes=True)
        self.messages = 0
        self._passing = passing
        self._left = most
        self._flows: dict[int, Flow] = {}
        #: By hash of a chosen message: its connection; by connection: its ends, first packet and last chosen packet.
        self._due: dict[int, int] = {}
        self._spans: dict[int, tuple[Ends, int, int]] = {}
        #: By broker: its first connection with an answer, up to that.
        self._shown: dict[str, tuple[Ends, int, int]] = {}
        #: Chosen messages whose exchange is not complete.
        self._chosen: set[_Key] = set()

    @property
    def is_done(self) -> bool:
        """True if all messages that were asked for have their answers, or will have none."""
        return self._left == 0 and not self._chosen

    def page(self, page: Iterable[Event]) -> None:
        """Take a page."""
        events = [*page]
        passed = self._passing([event for event in events if type(event) is Message])
        passed = passed if self._left is None else passed[: self._left]
        self._left = None if self._left is None else self._left - len(passed)
        self.messages += len(passed)
        chosen = {_key(message) for message in passed}
        for event in events:
            if type(event) is Opened:
                self._flows[event.flow.id] = event.flow
            elif type(event) is Message and _key(event) in chosen:
                self._choose(self._flows[event.flow], event)
            elif type(event) is Exchange:
                self._complete(event)
            elif type(event) is Closed:
                self._flows.pop(event.flow.id, None)

    def unread(self, pages: Iterable[Iterable[Event]]) -> int:
        """Return how many chosen messages are not in the pages of a copy, and choose all of their connections up to the
        last chosen message, and a connection that shows that the other end is a broker.

        Some bytes can be understood only with those before them: a message after a gap is recognised by its content.
        """
        read = {_again(event) for page in pages for event in page if type(event) is Message}
        unread = [flow for message, flow in self._due.items() if message not in read]
        for flow in {*unread}:
            ends, first, last = self._spans[flow]
            self.selection.add(ends, first, last)
            for shown in (self._shown[end] for end in ends if end in self._shown):
                self.selection.add(*shown)
        return len(unread)

    def _choose(self, flow: Flow, message: Message) -> None:
        first, last = (message.packet, message.packet) if message.packets is UNSET else message.packets
        if flow.tls is not None or flow.proxied is not None:
            first = flow.first_packet
        self.selection.add(flow.ends, flow.first_packet, flow.first_packet)
        self.selection.add(flow.ends, first, last)
        self._due[_again(message)] = flow.id
        self._spans[flow.id] = flow.ends, flow.first_packet, max(last, self._spans.get(flow.id, (None, 0, 0))[2])
        if message.kind != "unknown":
            self._chosen.add(_key(message))

    def _complete(self, exchange: Exchange) -> None:
        """Choose the other message of an exchange, if one was chosen."""
        sides = [message for message in (exchange.request, exchange.response) if message is not None]
        keys = {_key(message) for message in sides}
        flow = exchange.flow
        if len(sides) > 1 and flow.broker not in self._shown:
            self._shown[flow.broker] = flow.ends, flow.first_packet, exchange.packet
        if keys & self._chosen:
            for message in sides:
                self._choose(exchange.flow, message)
            self._chosen -= keys


def _again(message: Message) -> int:
    """Return a hash by which a message is recognised in a copy, where packets and connections have other numbers."""
    kind = message.kind == "response"
    return hash((message.client, message.broker, message.time_ns, kind, message.correlation_id, message.size))


def _key(message: Message) -> _Key:
    return message.flow, message.packet, message.correlation_id, message.kind
