"""`kshark live`: the engine on a network interface. Messages are printed as by `read`, findings as soon as they are
proved.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kshark.cli.apis import add_dissectors, registry
from kshark.cli.check import (
    add_coverage,
    add_fail_on,
    add_selection,
    asks_for_coverage,
    counted_requests,
    exit_code,
    fail_on,
    outcomes_of,
    selection,
    verdict,
)
from kshark.cli.live_screen import add_lines, begin_screen, shown_screen, wants_screen
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_payload, count, ports
from kshark.cli.printed_findings import Printed, show
from kshark.cli.read import Print, printing
from kshark.cli.resting import Resting
from kshark.cli.shown import add_filter, begin_capture, filtered, print_unmatched
from kshark.cli.tls import add_tls_keys
from kshark.errors import UsageError
from kshark.headlines import Headlines
from kshark.live import Consumer, Status
from kshark.model import Event, Finding, Message, PacketBatch
from kshark.names import TopicNames
from kshark.output.findings import FindingCounts
from kshark.output.jsonlines import shown
from kshark.output.notes import Notes
from kshark.output.sink import Sink
from kshark.pipeline import Engine, Options
from kshark.records import Opening
from kshark.run import Run
from kshark.units import counted

if TYPE_CHECKING:
    from kshark.capture.live import LiveCapture
    from kshark.live.screen import Screen

#: The status is told so often.
STATUS_SECONDS: Final = 0.25

EXAMPLES = (
    "kshark live -i eth0 -f 'tcp port 9092'",
    "kshark live -i eth0 -f 'tcp port 9092' --lines",
    "kshark live -i lo -T json | jq -c 'select(.verdict == \"violation\")'",
    "kshark live -i any -q -c 10000",
)


def arguments(parser: Parser) -> None:
    parser.add_argument("-i", dest="interface", metavar="INTERFACE", help="interface to capture; any: all interfaces")
    parser.add_argument("-f", dest="filter", metavar="BPF", help="capture filter of tcpdump: 'tcp port 9092'")
    parser.add_argument(
        "-s",
        dest="snap_length",
        type=count,
        default=262_144,
        metavar="BYTES",
        help="bytes to capture of each packet (262144)",
    )
    add_filter(parser, "only messages that pass the filter, and findings based on one")
    parser.add_argument("-c", dest="count", type=count, metavar="N", help="stop after N messages (Ctrl-C stops too)")
    add_format(parser, "text", "json")
    parser.add_argument("-V", dest="verbose", action="store_true", help="every field of every message, as a tree")
    add_selection(parser)
    add_coverage(parser)
    add_fail_on(parser)
    add_payload(parser)
    parser.add_argument(
        "-d", dest="decode_as", action="append", default=[], metavar="tcp.port==N,kafka", help="port N is Kafka"
    )
    add_max_request_bytes(parser)
    add_tls_keys(parser, growing=True)
    add_dissectors(parser)
    parser.add_argument("-n", action="store_true", help="no name resolution: kshark never does any")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no messages, findings only")
    add_lines(parser)
    parser.set_defaults(fields=[])
    codes = "1 if a rule was broken, 2 if the interface cannot be read, 3 if nothing could be judged, else 0"
    parser.epilog = f"{parser.epilog}\nexit code: {codes}.\n"


def run(args: Namespace) -> int:
    if args.interface is None:
        raise UsageError("no interface given; name one with -i (ip link lists them, any stands for all)")
    from kshark.capture.live import LiveCapture  # imports scapy, which nothing else needs

    sink = Sink(sys.stdout)
    has_screen = wants_screen(args)
    shown = not args.quiet and not has_screen
    opening: Opening = (args.records and shown) or "checked"
    read = Options(
        records=opening,
        payload=args.payload,
        kafka_ports=ports(args),
        max_request_bytes=args.max_request_bytes,
        embedded=shown,
        secrets=args.secrets,
    )
    options = filtered(read, args)
    engine = Engine(options, registry(args))
    names = engine.back.names
    begin_capture(args, names)
    screen = begin_screen(args, names) if has_screen else None
    output = _Lines(args, sink, printing(args, sink)(names), names, screen)
    capture = LiveCapture(args.interface, bpf=args.filter, snap_length=args.snap_length)
    _stop_on_signals(capture)
    if sys.stderr.isatty() and screen is None:
        print(f"kshark: capturing on {args.interface}, Ctrl-C ends", file=sys.stderr)
    with shown_screen(screen, (args.interface,)) as screens:
        packets = _judge(capture, engine, output, [*screens, output], args)
    code = output.code
    print(f"kshark: {counted(packets, 'packet')} captured, {capture.dropped:,} dropped by the kernel", file=sys.stderr)
    Sink(sys.stderr).lines([[("  ", ""), *line] for line in output.notes.lines()])
    print_unmatched(args)
    return code


def _judge(capture: LiveCapture, engine: Engine, lines: _Lines, consumers: Sequence[Consumer], args: Namespace) -> int:
    """Read the capture to its end, and give everything to the consumers; return the number of packets."""
    packets = 0
    since_ns = time.time_ns()
    due = time.monotonic()
    try:
        for item in capture:
            if isinstance(item, PacketBatch):
                packets += len(item.number)
                item.secrets = args.tls_keys.more() if args.tls_keys is not None else b""
                for consumer in consumers:
                    consumer.packets(item)
            for page in engine.feed(item):
                _page(page, lines.run, consumers)
            if time.monotonic() >= due:
                due = time.monotonic() + STATUS_SECONDS
                status = Status((args.interface,), since_ns, time.time_ns(), packets, capture.dropped)
                for consumer in consumers:
                    consumer.status(status)
            if lines.is_complete:
                break
    finally:
        capture.close()
    for page in engine.close():
        _page(page, lines.run, consumers)
    findings = lines.run.close()
    for consumer in consumers:
        consumer.close(findings)
    return packets


def _page(page: list[Event], run: Run, consumers: Sequence[Consumer]) -> None:
    findings = run.page(page)
    for consumer in consumers:
        consumer.page(page, findings)


def _stop_on_signals(capture: Any) -> None:
    """Install signal handlers: the first Ctrl-C ends the capture, the second ends the program."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, signal.default_int_handler)  # an exception, so that the terminal is restored
        capture.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


class _Lines:
    """Print the messages of each page, and after each message the findings that rest on it."""

    def __init__(
        self, args: Namespace, sink: Sink, write: Print, names: TopicNames | None, screen: Screen | None
    ) -> None:
        self.notes = Notes()
        self.code = 0
        #: True when `-c` messages were printed.
        self.is_complete = False
        self._args = args
        self._sink = sink
        self._left: int | None = args.count
        self._write = write
        self._names = names
        #: With a screen, only the verdict is printed.
        self._prints = screen is None
        chosen, self._resting = selection(args), Resting(args)
        self._failing = fail_on(args)
        self.run = Run(
            registry(args),
            shows=lambda finding: chosen(finding) and self._resting.shows(finding),
            keeps=False,
            coverage=asks_for_coverage(args) and counted_requests(args, self._resting),
            on_change=None if screen is None else screen.change,
        )
        self._printed = Printed(FindingCounts(), Headlines())

    def packets(self, batch: PacketBatch) -> None:
        pass

    def status(self, status: Status) -> None:
        pass

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        self.notes.add(page)
        messages = [event for event in page if isinstance(event, Message) and self._resting.passes(event)]
        if self._left is not None:
            messages = messages[: self._left]
            self._left -= len(messages)
        for finding in findings:
            before = [message for message in messages if message.packet <= finding.packet]
            messages = [message for message in messages if message.packet > finding.packet]
            self._messages(before)
            self._findings([finding])
        self._messages(messages)
        self.is_complete = self._left == 0

    def close(self, findings: Sequence[Finding]) -> None:
        """Print the last findings and the verdict."""
        self._findings(findings)
        verdict(self._printed, self.run.observed, self._args, self._sink)
        self.code = exit_code([outcomes_of(self._printed.counts, self.run.observed, self._args)], self._failing)

    def _messages(self, messages: list[Message]) -> None:
        if messages and self._prints and not self._args.quiet:
            self._write([shown(message) for message in messages])

    def _findings(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self._printed.add(finding)
        if self._prints:
            show(findings, self._args, self._sink, self._names.by_id if self._names is not None else {})
