"""`kshark live`: the engine on a network interface, or on a file that grows. Findings are printed as soon as they are
proved, messages as by `read`.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kshark.capture.paths import STANDARD_INPUT, is_remote
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.check import add_coverage, add_fail_on, add_selection, fail_on, selection
from kshark.cli.live_output import Output
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_payload, count, ports
from kshark.cli.shown import add_filter, begin_capture, filtered
from kshark.cli.tls import add_tls_keys
from kshark.errors import UnreadableInput, UsageError
from kshark.live import Consumer, Status
from kshark.model import Event, PacketBatch
from kshark.pipeline import Engine, Options
from kshark.records import Opening

if TYPE_CHECKING:
    from kshark.capture.followed import Followed
    from kshark.capture.live import LiveCapture

#: The status is told so often.
STATUS_SECONDS: Final = 0.25

EXAMPLES = (
    "kshark live -i eth0 -f 'tcp port 9092'",
    "kshark live -i lo -T json | jq -c 'select(.verdict == \"violation\")'",
    "kshark live -i any -q -c 10000",
    "kshark live -D",
    "kshark live -r /var/tmp/ring.pcapng --follow -q",
)


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "-i", dest="interface", metavar="INTERFACE", help="interface to capture, by name or number; any: all interfaces"
    )
    parser.add_argument("-D", dest="lists_interfaces", action="store_true", help="list the interfaces")
    parser.add_argument(
        "-r", dest="files", action="append", default=[], metavar="FILE", help="with --follow: a capture file that grows"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="read FILE while it is written, and the files after it (tcpdump -C, -W, -G; dumpcap -b)",
    )
    parser.add_argument("--once", action="store_true", help="with --follow: end where FILE and its successors end now")
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
    parser.add_argument(
        "-V", dest="verbose", action="store_true", help="every finding, and every field of every message (text)"
    )
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
    parser.add_argument("--lines", action="store_true", help="lines on a terminal too, as in a pipe")
    parser.set_defaults(fields=[])
    codes = "1 if a rule was broken, 2 if the interface cannot be read, 3 if nothing could be judged, else 0"
    parser.epilog = f"{parser.epilog}\nexit code: {codes}.\n"


def run(args: Namespace) -> int:
    if args.lists_interfaces:
        from kshark.cli.interfaces import print_interfaces  # only needed with -D

        return print_interfaces(args)
    _verify(args)
    shown = not args.quiet
    opening: Opening = (args.records and shown) or "checked"
    read = Options(
        records=opening,
        payload=args.payload,
        kafka_ports=ports(args),
        max_request_bytes=args.max_request_bytes,
        embedded=shown,
        secrets=args.secrets,
    )
    engine = Engine(filtered(read, args), registry(args))
    names = engine.back.names
    begin_capture(args, names)
    output = Output(args, names)
    capture = _followed(args, output) if args.files else _capture(args)
    _stop_on_signals(capture)
    hint = ", Ctrl-C ends" if sys.stderr.isatty() else ""
    output.note(f"{'following' if args.files else 'capturing on'} {capture.name}{hint}")
    consumers: list[Consumer] = [output.lines]
    return output.end(_judge(capture, engine, output, consumers, args))


def _verify(args: Namespace) -> None:
    """Raise UsageError for options that do not belong together, before anything is opened."""
    selection(args)
    fail_on(args)
    if args.interface is not None and args.files:
        raise UsageError("-i captures on an interface, and -r follows a file; give one of them")
    if len(args.files) > 1:
        raise UsageError("one file is followed, with the files that are written after it; give one -r")
    if args.files and not args.follow:
        raise UsageError("kshark live reads a file only while it is written: -r FILE --follow (kshark check reads one)")
    if args.files and (args.files[0] == STANDARD_INPUT or is_remote(args.files[0])):
        raise UsageError("a file of this computer can be followed; kshark check reads pipes (-) as they are written")
    if not args.files and (args.follow or args.once):
        raise UsageError("--follow and --once need a capture file: -r FILE --follow")
    if args.interface is None and not args.files:
        raise UsageError("no interface given; name one with -i (kshark live -D lists them, any stands for all)")


def _capture(args: Namespace) -> LiveCapture:
    from kshark.capture.live import LiveCapture  # imports scapy, which nothing else needs
    from kshark.cli.interfaces import name_of

    return LiveCapture(name_of(args.interface), bpf=args.filter, snap_length=args.snap_length)


def _followed(args: Namespace, output: Output) -> Followed:
    from kshark.capture.followed import Followed  # only needed with --follow

    if args.filter is not None:
        raise UsageError("-f filters packets of an interface; of a file, -Y filters messages")
    return Followed(args.files[0], once=args.once, note=output.note)


def _judge(
    capture: LiveCapture | Followed, engine: Engine, output: Output, consumers: Sequence[Consumer], args: Namespace
) -> Status:
    """Read the capture to its end, and give everything to the consumers; return the last status."""
    packets = 0
    since_ns = time.time_ns()
    due = time.monotonic()
    try:
        for item in capture:
            if isinstance(item, PacketBatch):
                packets += len(item.number)
                _packets(item, consumers, args)
            for page in engine.feed(item) if item is not None else ():
                _page(page, output, consumers)
            if time.monotonic() >= due:
                due = time.monotonic() + STATUS_SECONDS
                _tell(_status(capture, since_ns, packets), consumers)
            if output.lines.is_complete:
                break
    except UnreadableInput as error:
        if not packets:
            raise
        output.fails(error)
    finally:
        capture.close()
    for page in engine.close():
        _page(page, output, consumers)
    findings = output.last_findings()
    status = _status(capture, since_ns, packets)
    _tell(status, consumers)
    for consumer in consumers:
        consumer.close(findings)
    return status


def _packets(batch: PacketBatch, consumers: Sequence[Consumer], args: Namespace) -> None:
    batch.secrets += args.tls_keys.more() if args.tls_keys is not None else b""
    for consumer in consumers:
        consumer.packets(batch)


def _page(page: list[Event], output: Output, consumers: Sequence[Consumer]) -> None:
    findings = output.page(page)
    for consumer in consumers:
        consumer.page(page, findings)


def _status(capture: LiveCapture | Followed, since_ns: int, packets: int) -> Status:
    now_ns = time.time_ns()
    waiting, delay_ns = capture.backlog(now_ns)
    return Status((capture.name,), since_ns, now_ns, packets, capture.dropped, waiting=waiting, delay_ns=delay_ns)


def _tell(status: Status, consumers: Sequence[Consumer]) -> None:
    for consumer in consumers:
        consumer.status(status)


def _stop_on_signals(capture: LiveCapture | Followed) -> None:
    """Install signal handlers: the first Ctrl-C ends the capture, the second ends the program."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        capture.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
