"""`kshark deliveries`: the records that share groups have in flight, who holds them, and what became of one."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from kshark.analysis import APIS, Analyzer, Delivery, DeliveryLog, Holder, InFlightState
from kshark.api_keys import PRODUCE
from kshark.cli.apis import registry
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.period import time_of
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.model import Event, Exchange
from kshark.names import TopicNames
from kshark.output.deliveries import (
    dead_letter_lines,
    delivery_lines,
    holder_lines,
    moment_line,
    of,
    produced_lines,
    state_lines,
)
from kshark.output.sink import Sink
from kshark.output.spans import Line
from kshark.pipeline import Options
from kshark.produced import DeadLetter, Produced, appended_by, dead_letters_in, produced_as
from kshark_dissectors.topics import NAMING_APIS

EXAMPLES = (
    "kshark deliveries trace.pcap",
    "kshark deliveries trace.pcap --group g --topic orders --partition 0 --at +12.5s",
    "kshark deliveries trace.pcap --topic orders --partition 0 --offset 4711",
    "kshark deliveries trace.pcap --holders",
)

Listed = TypeVar("Listed", bound=Delivery | InFlightState | Holder)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    parser.add_argument("--group", metavar="NAME", help="only records of this group")
    parser.add_argument("--topic", metavar="NAME", help="only records of this topic, by its name or id")
    parser.add_argument("--partition", type=_offset, metavar="N", help="only records of this partition")
    parser.add_argument(
        "--at", metavar="TIME|PACKET", help="what records are in at a moment: +10s, 14:03:07, or a packet's number"
    )
    parser.add_argument(
        "--offset", type=_offset, metavar="N", help="one record's life: produced, acquired, acknowledged, by whom"
    )
    parser.add_argument(
        "--holders", action="store_true", help="who holds which records since when, and what the start offset waits for"
    )


def run(args: Namespace) -> int:
    if args.at is not None:
        _moment(args.at, 0)
    of_one = args.offset is not None  # dead letters say in their headers which record they are
    options = Options(records=of_one, payload=of_one, bodies=APIS | NAMING_APIS | _produced(args))
    for _ in each(args, options, _show):
        pass
    return 0


def _produced(args: Namespace) -> frozenset[int]:
    return frozenset({PRODUCE}) if args.offset is not None else frozenset()


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    reading = _Reading(source, args)
    if args.holders or args.at is not None:
        for _ in reading:
            pass
        now_ns = reading.now_ns
        holders = reading.named(reading.analyzer.holders(now_ns))
        states = reading.named(reading.analyzer.in_flight(now_ns))
        if args.format == "text" and not args.quiet:
            sink.lines([moment_line(now_ns, at_end=reading.over)])
        if args.holders:
            _print(sink, args, holders, lambda: holder_lines(holders, now_ns, sink.width))
        else:
            _print(sink, args, states, lambda: state_lines(states, holders, sink.width))
        reading.tell_others()
        return
    found = reading.named(delivery for delivery in reading if source.tells(delivery.time_ns))
    if args.offset is not None:
        found = [delivery for delivery in found if delivery.has(args.offset)]
        born = reading.born()
        if args.format == "text" and not args.quiet:
            sink.lines(produced_lines(born, args.offset, sink.width))
        elif not args.quiet:
            sink.json(born)
    _print(sink, args, found, lambda: delivery_lines(found, sink.width, offset=args.offset))
    if args.offset is not None:
        letters = reading.dead_letters()
        _print(sink, args, letters, lambda: dead_letter_lines(letters))
    reading.tell_others()


def _print(
    sink: Sink, args: Namespace, found: Sequence[Listed | DeadLetter], lines: Callable[[], Iterable[Line]]
) -> None:
    if args.quiet:
        return
    if args.format == "json":
        sink.json(found)
    else:
        sink.lines(lines())


class _Reading:
    """Deliveries of a capture, up to the moment that was asked for; what else is known when it is over."""

    def __init__(self, source: Source, args: Namespace) -> None:
        self._log = DeliveryLog(args.offset)
        self.analyzer = Analyzer(on_change=None if args.holders or args.at is not None else self._log.change)
        self.now_ns = 0
        #: The capture ended before that moment, or none was asked for.
        self.over = False
        self._produced: list[Produced] = []
        self._dead_letters: list[DeadLetter] = []
        self._names = TopicNames(registry(args))
        self._source = source
        self._args = args
        self._start_ns: int | None = None
        self._kept, self._others = False, set[str]()

    def __iter__(self) -> Iterator[Delivery]:
        for page in self._source:
            for event in page:
                if self._is_past(event):
                    return
                self._learn(event)
                self.analyzer.feed(event)
            yield from self._log.since()
        self.over = True
        self.analyzer.close()
        yield from self._log.since()

    def _is_past(self, event: Event) -> bool:
        time_ns, packet = getattr(event, "time_ns", None), getattr(event, "packet", 0)
        if time_ns is None:
            return False
        if self._start_ns is None:
            self._start_ns = time_ns
        if self._args.at is not None:
            last_packet, last_ns = _moment(self._args.at, self._start_ns)
            if packet > last_packet or time_ns > last_ns:
                self.now_ns = self.now_ns if last_ns == _NEVER else last_ns
                return True
        self.now_ns = max(self.now_ns, time_ns)
        return False

    def _learn(self, event: Event) -> None:
        if not isinstance(event, Exchange):
            return
        for message in (event.request, event.response):
            if message is not None:
                self._names.learn(message)
        if self._args.offset is not None and event.request is not None and event.request.api_key == PRODUCE:
            for one in appended_by(event):
                self._produced += produced_as(one, self._args.offset)
                self._dead_letters += dead_letters_in(one, self._args.offset)

    def born(self) -> list[Produced]:
        """The batches with the offset that was asked for."""
        for one in self._produced:
            one.topic = one.topic or self._names.by_id.get(one.topic_id or "")
        return [one for one in self._produced if self.takes(one.topic, one.topic_id, one.partition)]

    def dead_letters(self) -> list[DeadLetter]:
        """What became of it in queues; its topic is known by its name alone."""
        for one in self._dead_letters:
            one.queue = one.queue or self._names.by_id.get(one.queue_id or "")
        ids = {name: topic_id for topic_id, name in self._names.by_id.items()}
        group = self._args.group
        return [
            one
            for one in self._dead_letters
            if group in (None, one.group_id) and self.takes(one.topic, ids.get(one.topic or ""), one.partition)
        ]

    def takes(self, topic: str | None, topic_id: str | None, partition: int) -> bool:
        args = self._args
        topic = topic or self._names.by_id.get(topic_id or "")
        return args.topic in (None, topic, topic_id) and args.partition in (None, partition)

    def named(self, found: Iterable[Listed]) -> list[Listed]:
        """Those that were asked for, with their topics' names."""
        args = self._args
        kept = []
        for one in [*found]:
            one.topic = self._names.by_id.get(one.topic_id)
            if self.takes(one.topic, one.topic_id, one.partition) and args.group in (None, one.group_id):
                kept.append(one)
            else:
                self._others.add(of(one))
        self._kept |= bool(kept)
        return kept

    def tell_others(self) -> None:
        """Where there is nothing of what was asked for, most likely a name is mistyped: what there is."""
        if self._others and not self._kept:
            some = sorted(self._others)
            more = f" and {len(some) - _SOME} more" if len(some) > _SOME else ""
            print(
                f"kshark: nothing of what was asked for; there are records of {', '.join(some[:_SOME])}{more}",
                file=sys.stderr,
            )


_NEVER: Final = 1 << 62
#: Share partitions that are named where there is nothing of the one that was asked for.
_SOME: Final = 5


def _moment(text: str, start_ns: int) -> tuple[int, int]:
    """The last packet and the last time."""
    if re.fullmatch(r"\d{1,9}", text):
        return int(text), _NEVER
    try:
        return _NEVER, time_of(text, start_ns)
    except UsageError:
        raise UsageError(
            f'--at takes a time or the number of a packet, not "{text}"; write +10s, 14:03:07 or 4711'
        ) from None


def _offset(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise ArgumentTypeError(f'"{text}" is no number from 0')
    return int(text)
