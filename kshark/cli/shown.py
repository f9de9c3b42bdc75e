"""`-Y`: the messages that a command shows, and what belongs to them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from kshark.analysis import ListedSession, Told
from kshark.cli.apis import registry
from kshark.model import Closed, Event, Exchange, Finding, Message
from kshark.pipeline import Options

if TYPE_CHECKING:
    from kshark.cli.parser import Parser
    from kshark.conditions.fields import Fields, Needs
    from kshark.conditions.filter import Filter
    from kshark.registry import Registry

#: Packets that are told apart: 128 MB at most. Of more, one may be taken for another, and what rests on it be shown for nothing.
_PACKETS: Final = 1 << 30


def add_filter(parser: Parser, shown: str) -> None:
    """`-Y`; `shown` says what passes."""
    parser.add_argument(
        "-Y", dest="display_filter", metavar="FILTER", help=f"{shown}, as in 'kafka.api == ShareFetch && kafka.error_code > 0'"
    )


def fields(args: Namespace) -> Fields:
    """The fields that `-e` and `-Y` may name."""
    return _fields(registry(args))


@cache
def _fields(known: Registry) -> Fields:
    from kshark.conditions.fields import Fields  # only who names one needs them

    return Fields(known)


def display_filter(args: Namespace) -> Filter | None:
    """The filter of a command line, made once; None where there is none. Raises FilterError."""
    return None if args.display_filter is None else _filter(args.display_filter, fields(args))


@cache
def _filter(text: str, known: Fields) -> Filter:
    from kshark.conditions.filter import Filter

    return Filter(text, known)


def filtered(options: Options, args: Namespace) -> Options:
    """The options, with what the filter has to look into."""
    wanted = display_filter(args)
    return options if wanted is None else with_needs(options, wanted.needs)


def with_needs(options: Options, needs: Needs) -> Options:
    """The options, with what has to be read for fields."""
    bodies = None if options.bodies is None else options.bodies | needs.bodies
    return replace(options, bodies=bodies, records=needs.records or options.records, embedded=needs.embedded or options.embedded)


class Packets:
    """Numbers of packets, in any order: a bit each."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, packet: int) -> None:
        at = packet % _PACKETS >> 3
        if at >= len(self._bits):
            self._bits += bytes(max(at + 1 - len(self._bits), len(self._bits) >> 3))
        self._bits[at] |= 1 << (packet & 7)

    def has(self, packet: int) -> bool:
        at = packet % _PACKETS >> 3
        return at < len(self._bits) and bool(self._bits[at] >> (packet & 7) & 1)


class Resting:
    """Findings, and requests of share sessions, that rest on a message that passes; all of them, where there is no filter."""

    def __init__(self, args: Namespace) -> None:
        self._wanted = display_filter(args)
        self._packets = Packets()

    def passes(self, message: Message) -> bool:
        """Whether the message passes; it is remembered."""
        if self._wanted is None:
            return True
        passed = self._wanted.passes(message)
        if passed:
            self._packets.add(message.packet)
        return passed

    def add(self, page: Iterable[Event]) -> None:
        """Remembers the messages that pass."""
        if self._wanted is not None:
            for event in page:
                if type(event) is Message:
                    self.passes(event)

    def shown(self, told: Iterable[Told]) -> Iterable[Told]:
        """What of this is shown."""
        return told if self._wanted is None else (one for one in told if self.shows(one))

    def shows(self, told: Told) -> bool:
        """Whether a message that it rests on has passed; sessions are shown as connections are."""
        if self._wanted is None or isinstance(told, ListedSession):
            return True
        exchanges, else_packet = (told.witness, told.packet) if isinstance(told, Finding) else ([told.witness], told.step.packet)
        packets = [packet for each in exchanges for packet in (each.request_packet, each.response_packet) if packet is not None]
        return any(map(self._packets.has, packets or [else_packet]))


def only_passing(wanted: Filter, page: Iterable[Event], connections: set[int]) -> Iterator[Event]:
    """Messages that pass, exchanges one of whose messages does, and ends of `connections`, those with such an exchange."""
    for event in page:
        if isinstance(event, Message) and wanted.passes(event):
            yield event
        elif isinstance(event, Exchange) and wanted.takes(event):
            connections.add(event.flow.id)
            yield event
        elif isinstance(event, Closed) and event.flow.id in connections:
            connections.discard(event.flow.id)
            yield event
