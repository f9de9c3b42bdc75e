"""`kshark live`: the engine on a network interface. Messages are printed as by `read`, findings as soon as they are
proved.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kshark.analysis import Change
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
from kshark.cli.importing import import_all
from kshark.cli.live_files import LiveFiles, add_files
from kshark.cli.live_screen import add_lines, begin_screen, shown_screen, wants_screen
from kshark.cli.metrics import add_prometheus, serving
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_payload, count, disk_size, ports
from kshark.cli.printed_findings import Printed, show
from kshark.cli.read import Print, printing
from kshark.cli.resting import Resting
from kshark.cli.shown import add_filter, begin_capture, filtered, print_unmatched
from kshark.cli.tls import add_tls_keys
from kshark.errors import UnreadableInput, UsageError
from kshark.headlines import Headlines
from kshark.live import Consumer, Status
from kshark.live.running import Running, Totals, ended_by_signals
from kshark.model import Event, Finding, Message, PacketBatch
from kshark.names import TopicNames
from kshark.output.findings import FindingCounts
from kshark.output.jsonlines import shown
from kshark.output.notes import Notes
from kshark.output.sink import Sink
from kshark.pipeline import Engine, Options
from kshark.records import Opening
from kshark.run import Run
from kshark.units import counted, safe

if TYPE_CHECKING:
    from kshark.capture.live import LiveCapture

SPOOL_BYTES: Final = 4 << 30

EXAMPLES = (
    "kshark live -i eth0 -f 'tcp port 9092'",
    "kshark live -i eth0 -f 'tcp port 9092' --lines",
    "kshark live -i lo -T json | jq -c 'select(.verdict == \"violation\")'",
    "kshark live -i any -q -c 10000",
    "kshark live -i eth0 -q -w ring.pcapng -b filesize:100000 -b files:10 --on-violation save=/var/tmp/kshark",
)


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "-i",
        dest="interfaces",
        action="append",
        metavar="INTERFACE",
        help="interface to capture, also several times; any: all interfaces",
    )
    parser.add_argument("-f", dest="filter", metavar="BPF", help="capture filter of tcpdump: 'tcp port 9092'")
    parser.add_argument(
        "-s",
        dest="snap_length",
        type=count,
        default=262_144,
        metavar="BYTES",
        help="bytes to capture of each packet (262144)",
    )
    parser.add_argument("--once", action="store_true", help="end when an interface goes down, do not wait for it")
    parser.add_argument(
        "-Z",
        dest="user",
        metavar="USER",
        help="as root: become USER once the interfaces are open (the user of sudo, else nobody)",
    )
    parser.add_argument(
        "--spool",
        type=disk_size,
        default=SPOOL_BYTES,
        metavar="SIZE",
        help="packets that wait to be judged take up to SIZE on disk, in TMPDIR (4GB)",
    )
    add_files(parser)
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
    add_prometheus(parser)
    parser.set_defaults(fields=[])
    codes = "1 if a rule was broken, 2 if the interface cannot be read, 3 if nothing could be judged, else 0"
    parser.epilog = f"{parser.epilog}\nexit code: {codes}.\n"


def run(args: Namespace) -> int:
    if not args.interfaces:
        raise UsageError("no interface given; name one with -i (ip link lists them, any stands for all)")
    from kshark.capture.live import LiveCapture, chosen_user, give_up_rights  # only for Linux

    files = LiveFiles(args)
    args.quiet = args.quiet or files.takes_output
    sink = Sink(sys.stderr if files.takes_output else sys.stdout)
    has_screen = wants_screen(args)
    shown = not args.quiet and not has_screen
    is_counted = has_screen or args.prometheus is not None or (files.needs_tables and args.records)
    opening: Opening = (args.records and shown) or ("headers" if is_counted else "checked")
    read = Options(
        records=opening,
        payload=args.payload,
        kafka_ports=ports(args),
        max_request_bytes=args.max_request_bytes,
        embedded=shown or files.needs_tables,
        secrets=args.secrets,
    )
    options = filtered(read, args)
    engine = Engine(options, registry(args))
    names = engine.back.names
    begin_capture(args, names)
    metrics = serving(args, registry(args))
    screen = begin_screen(args, names, files.save) if has_screen else None
    changed = [consumer.changed for consumer in (metrics, screen) if consumer is not None]
    output = _Lines(
        args,
        sink,
        printing(args, sink)(names),
        names,
        changed,
        listing=files.needs_tables,
        prints=screen is None,
    )
    consumers: list[Consumer] = [output]
    if screen is not None:
        screen.judges(output.run)
        consumers.insert(0, screen)  # it leaves the terminal before the verdict is printed
    if metrics is not None:
        metrics.judges(output.run)
        consumers.append(metrics)
    user = chosen_user(args.user)
    capture = LiveCapture(
        *args.interfaces,
        bpf=args.filter,
        snap_length=args.snap_length,
        spool_bytes=args.spool,
        user=user,
        once=args.once,
    )
    try:
        files.open(user, output.run)
        import_all(user)
        give_up_rights(user)
        files.start()
    except UsageError:
        capture.close()
        raise
    if screen is None:
        print(f"kshark: capturing on {', '.join(args.interfaces)}, Ctrl-C ends", file=sys.stderr, flush=True)
    keys = args.tls_keys.more if args.tls_keys is not None else bytes
    running = Running(
        capture,
        engine,
        output.run,
        [*consumers, *files.consumers],
        keys=keys,
        cut=files.cut,
        recorder=lambda: "" if files.recorder is None else files.recorder.state,
        is_done=lambda: output.is_complete or files.is_complete,
        keeps_packets=files.keeps_packets,
    )
    with shown_screen(screen, capture.interfaces) as restore, ended_by_signals(running.end, restore):
        running.run()
    print(f"kshark: {_captured(running.totals, capture)}", file=sys.stderr)
    Sink(sys.stderr).lines([[("  ", ""), *line] for line in output.notes.lines()])
    print_unmatched(args)
    if capture.fault:
        print(f"kshark: {safe(capture.fault)}", file=sys.stderr)
    return UnreadableInput.exit_code if capture.has_failed and output.code != 1 else output.code


def _captured(totals: Totals, capture: LiveCapture) -> str:
    captured = (
        f"{counted(totals.packets + totals.not_judged, 'packet')} captured, {capture.dropped:,} dropped by the kernel"
    )
    left = [
        counted(count, what)
        for count, what in ((totals.not_judged, "packet"), (totals.messages_not_judged, "message"))
        if count
    ]
    return f"{captured}; not judged, since the capture had to end: {' and '.join(left)}" if left else captured


class _Lines:
    """Print the messages of each page, and after each message the findings that rest on it."""

    def __init__(
        self,
        args: Namespace,
        sink: Sink,
        write: Print,
        names: TopicNames | None,
        changed: Sequence[Callable[[Change], object]] = (),
        *,
        listing: bool = False,
        prints: bool = True,
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
        self._prints = prints
        chosen, self._resting = selection(args), Resting(args)
        self._failing = fail_on(args)
        self.run = Run(
            registry(args),
            shows=lambda finding: chosen(finding) and self._resting.shows(finding),
            keeps=False,
            listing=listing,
            coverage=asks_for_coverage(args) and counted_requests(args, self._resting),
            on_change=_calls(changed),
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


def _calls(each: Sequence[Callable[[Change], object]]) -> Callable[[Change], object] | None:
    """Return a function that calls all of them; None without one."""
    if len(each) < 2:
        return next(iter(each), None)
    return lambda change: [called(change) for called in each]
