"""`kshark deliveries`: the records that share groups have in flight, their holders, and the history of one record."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kshark.analysis import Aborted, Delivery, Holder, InFlightState, Moment, WaitingGroup
from kshark.api_keys import PRODUCE
from kshark.cli.apis import registry
from kshark.cli.each import each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.period import time_of
from kshark.cli.segments import need_log, print_share_states, segments_of, share_states_by_log
from kshark.cli.source import Source
from kshark.delivery_changes import BODIES, DeliveryChanges
from kshark.errors import UsageError
from kshark.groups import CONFIG_APIS, GroupSettings
from kshark.model import Event, Exchange, Message
from kshark.output.deliveries import (
    aborted_lines,
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

if TYPE_CHECKING:
    from kshark.output.beside_log import BesideLog
    from kshark.segments import FetchedLog, ShareState

EXAMPLES = (
    "kshark deliveries trace.pcap",
    "kshark deliveries trace.pcap --group g --topic orders --partition 0 --at +12.5s",
    "kshark deliveries trace.pcap --topic orders --partition 0 --offset 4711",
    "kshark deliveries trace.pcap --holders",
    "kshark deliveries trace.pcap -V",
    "kshark deliveries trace.pcap --log __share_group_state-0/00000000000000000000.log",
    "kshark deliveries cluster.pcap --log capture",
    "kshark deliveries __share_group_state-0/00000000000000000000.log",
)

Listed = TypeVar("Listed", bound=Delivery | InFlightState | Holder | WaitingGroup)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, "text", "json")
    parser.add_argument("--group", metavar="NAME", help="only records of this group")
    parser.add_argument("--topic", metavar="NAME", help="only records of this topic, by its name or id")
    parser.add_argument("--partition", type=_offset, metavar="N", help="only records of this partition")
    parser.add_argument(
        "--at",
        metavar="TIME|PACKET",
        help="records in flight at a moment: +10s, 14:03:07, or a packet number (of a request log: a line)",
    )
    parser.add_argument(
        "--offset",
        type=_offset,
        metavar="N",
        help="history of one record: who produced, acquired, acknowledged it",
    )
    parser.add_argument(
        "--holders",
        action="store_true",
        help="holders of records, since when, and what blocks the start offset",
    )
    parser.add_argument(
        "-V",
        dest="verbose",
        action="store_true",
        help="below each change the WriteShareGroupState with which the leader stored it",
    )
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="SEGMENT",
        help="state at the end beside that by the log of __share_group_state: a segment, a folder of segments, or "
        "capture for the records that followers fetch in the capture",
    )


def run(args: Namespace) -> int:
    if (segments := segments_of(args)) is not None:
        return print_share_states(segments, args)
    if args.at is not None:
        _moment(args.at, 0)
    if args.log and (args.offset is not None or args.holders):
        raise UsageError("--log shows states of share partitions; leave out --offset and --holders")
    fetched = _is_fetched(args)
    if args.log and not fetched:
        need_log(args)
    of_one = args.offset is not None  # the headers of dead letters name the original record
    # Batch headers show which records were aborted, and which transactions are open.
    options = Options(
        records=True if of_one or fetched else "checked",
        payload=of_one or fetched,
        bodies=BODIES,
        embedded=fetched,
    )
    for _ in each(args, options, _show, stops=True):
        pass
    return 0


def _is_fetched(args: Namespace) -> bool:
    """True if the log is that which followers fetch in the capture. Raises UsageError if there are others too."""
    if _FETCHED in args.log and len(args.log) > 1:
        raise UsageError(f"--log {_FETCHED} is the log in the capture itself; leave out the segments")
    return bool(args.log == [_FETCHED])


def _show(source: Source, args: Namespace, sink: Sink) -> None:
    reading = _Reading(source, args)
    if args.log:
        _show_beside_log(reading, args, sink)
        return
    if args.holders or args.at is not None:
        _show_states(reading, args, sink)
    else:
        _show_changes(reading, args, sink)
    reading.print_others()


def _show_states(reading: _Reading, args: Namespace, sink: Sink) -> None:
    """Print the states at the end, or at the moment of `--at`, or with `--holders` who holds the records."""
    for _ in reading:
        pass
    now_ns = reading.now_ns
    holders = reading.named(reading.analyzer.holders(now_ns))
    states = reading.named(reading.analyzer.in_flight(now_ns))
    if args.format == "text" and not args.quiet:
        sink.lines([moment_line(now_ns, at_end=reading.over)])
    waiting = reading.waiting()
    if args.holders:
        both: list[Holder | WaitingGroup] = [*holders, *waiting]
        _print(sink, args, both, lambda: holder_lines(holders, now_ns, sink.width, waiting))
    else:
        _print(sink, args, states, lambda: state_lines(states, holders, now_ns, sink.width, waiting))


def _show_changes(reading: _Reading, args: Namespace, sink: Sink) -> None:
    """Print each change of a delivery; with `--offset` the history of one record."""
    every = [*reading]
    apart = 0
    if reading.writes is not None:
        reading.writes.attach(every)
        apart = reading.writes.apart
    deliveries = reading.named(delivery for delivery in every if reading.includes(delivery.time_ns))
    if args.offset is not None:
        deliveries = [delivery for delivery in deliveries if delivery.has(args.offset)]
        produced = reading.produced()
        if args.format == "text" and not args.quiet:
            sink.lines(produced_lines(produced, args.offset, clusters=reading.has_clusters))
            sink.lines(aborted_lines(reading.aborted(args.offset), args.offset))
        elif not args.quiet:
            sink.json(produced)
    _print(sink, args, deliveries, lambda: delivery_lines(deliveries, sink.width, offset=args.offset, apart=apart))
    if args.offset is not None:
        letters = reading.dead_letters()
        _print(sink, args, letters, lambda: dead_letter_lines(letters, clusters=reading.has_clusters))


def _show_beside_log(reading: _Reading, args: Namespace, sink: Sink) -> None:
    """Print the states at the end, or at the moment of `--at`, beside those by the log up to then."""
    from kshark.output.beside_log import beside_lines  # only needed with --log

    for _ in reading:
        pass
    now_ns = reading.now_ns
    states = reading.named(reading.analyzer.in_flight(now_ns))
    if reading.fetched is not None:
        by_log = reading.fetched.states()
        if not reading.fetched.batches:
            print("kshark: no follower fetches __share_group_state in this capture", file=sys.stderr)
    else:
        by_log = share_states_by_log(args, now_ns)
    beside = reading.beside(states, by_log)
    if args.format == "text" and not args.quiet:
        sink.lines([moment_line(now_ns, at_end=reading.over)])
    _print(sink, args, beside, lambda: beside_lines(beside))


def _print(
    sink: Sink,
    args: Namespace,
    items: Sequence[Listed | Holder | WaitingGroup | DeadLetter | BesideLog],
    lines: Callable[[], Iterable[Line]],
) -> None:
    if args.quiet:
        return
    if args.format == "json":
        sink.json(items)
    else:
        sink.lines(lines())


class _Reading:
    """The deliveries of a capture up to the moment of `--at`, its produced batches and its dead letters."""

    def __init__(self, source: Source, args: Namespace) -> None:
        self._changes = DeliveryChanges(
            registry(args),
            offset=args.offset,
            listed=not args.holders and args.at is None,
            stored=args.verbose or args.format == "json",
        )
        self.analyzer = self._changes.analyzer
        self.now_ns = 0
        #: True if the capture ended before the moment of `--at`, or without `--at`.
        self.over = False
        self._clusters = self._changes.clusters
        #: The leaders' writes, if they are shown.
        self.writes = self._changes.writes
        #: Each with the broker's address.
        self._produced: list[tuple[str, Produced]] = []
        self._dead_letters: list[tuple[str, DeadLetter]] = []
        self._names = self._changes.names
        #: By number of the cluster.
        self._settings: defaultdict[int, GroupSettings] = defaultdict(GroupSettings)
        self._source = source
        self._args = args
        #: The log that followers fetch, if it is compared.
        self.fetched: FetchedLog | None = None
        if _is_fetched(args):
            from kshark.segments import FetchedLog  # only needed with --log

            self.fetched = FetchedLog()
        self._start_ns: int | None = None
        #: The response of the line that `--at` names, in a request log.
        self._line_ends = 0
        self._has_selected, self._others = False, set[str]()

    def __iter__(self) -> Iterator[Delivery]:
        for page in self._source:
            for event in page:
                if self._is_past(event):
                    return
                self._changes.feed(event)
                self._learn(event)
            yield from self._changes.since()
        self.over = True
        self._changes.close()
        yield from self._changes.since()

    def _is_past(self, event: Event) -> bool:
        time_ns, packet = getattr(event, "time_ns", None), getattr(event, "packet", 0)
        if time_ns is None:
            return False
        if self._start_ns is None:
            self._start_ns = time_ns
        if self._args.at is not None:
            last_packet, last_ns = _moment(self._args.at, self._start_ns)
            if last_ns == _NEVER and (log_lines := self._source.log_lines) is not None:
                if self._line_ends == 0 and _answers(event) and log_lines.cell(packet) == self._args.at:
                    self._line_ends = packet
                last_packet = self._line_ends or _NEVER
            if packet > last_packet or time_ns > last_ns:
                self.now_ns = self.now_ns if last_ns == _NEVER else last_ns
                return True
        self.now_ns = max(self.now_ns, time_ns)
        return False

    def _learn(self, event: Event) -> None:
        if not isinstance(event, Exchange):
            return
        if self.fetched is not None and event.response is not None:
            self._source.notes.add([*self.fetched.feed(event.response)])
        if event.request is not None and event.request.api_key in CONFIG_APIS:
            self._learn_settings(event, event.request)
        if self._args.offset is not None and event.request is not None and event.request.api_key == PRODUCE:
            for appended in appended_by(event):
                broker, offset = event.request.broker, self._args.offset
                self._produced += ((broker, batch) for batch in produced_as(appended, offset))
                self._dead_letters += ((broker, letter) for letter in dead_letters_in(appended, offset))

    def _learn_settings(self, exchange: Exchange, request: Message) -> None:
        answer = exchange.response
        last = request if answer is None else answer
        self._settings[self._clusters.number(request.broker)].learn(
            request.api_key or 0,
            request.body,
            None if answer is None else answer.body,
            Moment(last.packet, last.time_ns),
            request.broker,
        )

    def waiting(self) -> list[WaitingGroup]:
        """Return the groups that have come to an open transaction; without those that read uncommitted records."""
        groups = self.named(self.analyzer.waiting())
        for group in groups:
            number = self._clusters.number_of(group.cluster_id)
            settings = self._settings[number].of(group.group_id or "", "share")
            levels = (setting.value for setting in settings if setting.name == "share.isolation.level")
            group.isolation_level = next(levels, None)
        return [group for group in groups if group.isolation_level != "read_uncommitted"]

    def aborted(self, offset: int) -> list[tuple[str, Aborted]]:
        """Return the aborted batches of the selected partitions that have the offset, each with its partition."""
        return [
            (f"{self._names.by_id.get(topic, topic)}[{partition}]", batch)
            for (topic, partition), batch in self.analyzer.aborted(offset)
            if self.selects(None, topic, partition) or self.selects(topic, None, partition)
        ]

    def includes(self, time_ns: int) -> bool:
        """True if the options of the command select this time."""
        return self._source.includes_time(time_ns)

    @property
    def has_clusters(self) -> bool:
        """True if the capture holds the traffic of several clusters."""
        return len(self._clusters) > 1

    def produced(self) -> list[Produced]:
        """Return the produced batches that contain the offset of `--offset`."""
        for broker, batch in self._produced:
            batch.topic = batch.topic or self._names.by_id.get(batch.topic_id or "")
            batch.cluster_id = self._clusters.of(broker)
        return [batch for _, batch in self._produced if self.selects(batch.topic, batch.topic_id, batch.partition)]

    def dead_letters(self) -> list[DeadLetter]:
        """Return the record's dead letters; they name its topic without its id."""
        for broker, letter in self._dead_letters:
            letter.queue = letter.queue or self._names.by_id.get(letter.queue_id or "")
            letter.cluster_id = self._clusters.of(broker)
        ids = {name: topic_id for topic_id, name in self._names.by_id.items()}
        group = self._args.group
        return [
            letter
            for _, letter in self._dead_letters
            if group in (None, letter.group_id)
            and self.selects(letter.topic, ids.get(letter.topic or ""), letter.partition)
        ]

    def selects(self, topic: str | None, topic_id: str | None, partition: int) -> bool:
        args = self._args
        topic = topic or self._names.by_id.get(topic_id or "")
        return args.topic in (None, topic, topic_id) and args.partition in (None, partition)

    def named(self, items: Iterable[Listed]) -> list[Listed]:
        """Return the selected items, with the names of their topics."""
        args = self._args
        selected = []
        for item in [*items]:
            item.topic = self._names.by_id.get(item.topic_id)
            if self.selects(item.topic, item.topic_id, item.partition) and args.group in (None, item.group_id):
                selected.append(item)
            else:
                self._others.add(of(item))
        self._has_selected |= bool(selected)
        return selected

    def beside(self, states: Sequence[InFlightState], stored: Sequence[ShareState]) -> list[BesideLog]:
        """Return the states by packets and by the log of each share partition that one of them has."""
        from kshark.output.beside_log import BesideLog  # only needed with --log

        by_key: dict[tuple[str | None, str, int], BesideLog] = {}
        for state in states:
            key = state.group_id, state.topic_id, state.partition
            by_key[key] = BesideLog(*key, state.topic, state, None)
        for kept in stored:
            topic, own = self._names.by_id.get(kept.topic_id), (kept.group_id, kept.topic_id, kept.partition)
            if self.selects(topic, kept.topic_id, kept.partition) and self._args.group in (None, kept.group_id):
                by_key.setdefault(own, BesideLog(*own, topic, None, None)).by_log = kept
        return [*by_key.values()]

    def print_others(self) -> None:
        """Print which share partitions exist if none is selected: most likely a name is mistyped."""
        if self._others and not self._has_selected:
            others = sorted(self._others)
            rest = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
            print(
                f"kshark: no record matches; there are records of {', '.join(others[:_LISTED])}{rest}",
                file=sys.stderr,
            )


def _answers(event: Event) -> bool:
    return isinstance(event, Message) and event.kind == "response"


#: What `--log` takes in place of segments.
_FETCHED: Final = "capture"
_NEVER: Final = 1 << 62
#: Share partitions that are listed if none is selected.
_LISTED: Final = 5


def _moment(text: str, start_ns: int) -> tuple[int, int]:
    """Return the last packet and the last time to read."""
    if re.fullmatch(r"\d{1,9}", text):
        return int(text), _NEVER
    try:
        return _NEVER, time_of(text, start_ns)
    except UsageError:
        raise UsageError(
            f'--at accepts a time or a packet number, not "{text}"; write +10s, 14:03:07 or 4711'
        ) from None


def _offset(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise ArgumentTypeError(f'"{text}" is not a number from 0')
    return int(text)
