"""`kshark live`: the engine on network interfaces, or on a file that grows. Findings are printed as soon as they are
proved, messages as by `read`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Final

from kshark.capture.paths import STANDARD_INPUT, is_remote
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.check import add_coverage, add_fail_on, add_selection, fail_on, selection
from kshark.cli.importing import import_all
from kshark.cli.live_output import Output
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_payload, count, disk_size, ports
from kshark.cli.shown import add_filter, begin_capture, filtered
from kshark.cli.tls import add_tls_keys
from kshark.errors import UsageError
from kshark.live import Consumer
from kshark.live.running import Running, ended_by_signals
from kshark.pipeline import Engine, Options
from kshark.records import Opening

if TYPE_CHECKING:
    from kshark.capture.followed import Followed
    from kshark.capture.live import LiveCapture

SPOOL_BYTES: Final = 4 << 30

EXAMPLES = (
    "kshark live -i eth0 -f 'tcp port 9092'",
    "kshark live -i lo -T json | jq -c 'select(.verdict == \"violation\")'",
    "kshark live -i any -q -c 10000",
    "kshark live -D",
    "kshark live -r /var/tmp/ring.pcapng --follow -q",
)


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "-i",
        dest="interfaces",
        action="append",
        default=[],
        metavar="INTERFACE",
        help="interface to capture, by name or number, also several times; any: all interfaces",
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
    parser.add_argument("-f", dest="filter", metavar="BPF", help="capture filter of tcpdump: 'tcp port 9092'")
    parser.add_argument(
        "-s",
        dest="snap_length",
        type=count,
        default=262_144,
        metavar="BYTES",
        help="bytes to capture of each packet (262144)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="end when an interface goes down, do not wait for it; with --follow: end where FILE and the files after "
        "it end now",
    )
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
    hint = ", Ctrl-C ends" if sys.stderr.isatty() else ""
    output.note(f"{'following' if args.files else 'capturing on'} {', '.join(capture.interfaces)}{hint}")
    keys = args.tls_keys.more if args.tls_keys is not None else bytes
    consumers: list[Consumer] = [output, output.lines]
    running = Running(capture, engine, output.run, consumers, keys=keys, is_done=lambda: output.lines.is_complete)
    with ended_by_signals(running.end):
        running.run()
    return output.end(running.totals, has_failed=capture.has_failed)


def _verify(args: Namespace) -> None:
    """Raise UsageError for options that do not belong together, before anything is opened."""
    selection(args)
    fail_on(args)
    if args.interfaces and args.files:
        raise UsageError("-i captures on an interface, and -r follows a file; give one of them")
    if len(args.files) > 1:
        raise UsageError("one file is followed, with the files that are written after it; give one -r")
    if args.files and not args.follow:
        raise UsageError("kshark live reads a file only while it is written: -r FILE --follow (kshark check reads one)")
    if args.files and (args.files[0] == STANDARD_INPUT or is_remote(args.files[0])):
        raise UsageError("a file of this computer can be followed; kshark check reads pipes (-) as they are written")
    if args.files and args.filter is not None:
        raise UsageError("-f filters packets of an interface; of a file, -Y filters messages")
    if not args.files and args.follow:
        raise UsageError("--follow needs a capture file: -r FILE --follow")
    if not args.interfaces and not args.files:
        raise UsageError("no interface given; name one with -i (kshark live -D lists them, any stands for all)")


def _capture(args: Namespace) -> LiveCapture:
    """Open the interfaces, and then give up rights: before the first packet is read, and the first line written."""
    from kshark.capture.live import LiveCapture, chosen_user, give_up_rights  # only for Linux
    from kshark.cli.interfaces import name_of

    user = chosen_user(args.user)
    capture = LiveCapture(
        *map(name_of, args.interfaces),
        bpf=args.filter,
        snap_length=args.snap_length,
        spool_bytes=args.spool,
        user=user,
        once=args.once,
    )
    import_all(user)
    give_up_rights(user)
    return capture


def _followed(args: Namespace, output: Output) -> Followed:
    from kshark.capture.followed import Followed  # only needed with --follow

    return Followed(args.files[0], once=args.once, note=output.note)
