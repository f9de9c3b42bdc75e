"""`kshark live`: the engine on network interfaces, or on a file that grows. A screen on a terminal, else lines:
findings as soon as they are proved, messages as by `read`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from kshark.capture.paths import STANDARD_INPUT, is_remote
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.check import add_coverage, add_fail_on, add_selection, fail_on, selection
from kshark.cli.importing import import_all
from kshark.cli.live_files import LiveFiles, add_files
from kshark.cli.live_output import Output
from kshark.cli.live_screen import add_lines, begin_screen, shown_screen, wants_screen
from kshark.cli.metrics import add_prometheus, serving
from kshark.cli.parser import Parser, add_format, add_max_request_bytes, add_payload, count, disk_size, ports
from kshark.cli.shown import add_filter, begin_capture, filtered
from kshark.cli.tls import add_tls_keys
from kshark.errors import UsageError
from kshark.limits import SNAP_LENGTH, SPOOL_BYTES
from kshark.live import Consumer
from kshark.live.running import Running, ended_by_signals
from kshark.pipeline import Engine, Options
from kshark.records import Opening
from kshark.run import Run

if TYPE_CHECKING:
    from kshark.capture.followed import Followed
    from kshark.capture.live import LiveCapture

EXAMPLES = (
    "kshark live -i eth0 -f 'tcp port 9092'",
    "kshark live -i eth0 -f 'tcp port 9092' --lines",
    "kshark live -i lo -T json | jq -c 'select(.verdict == \"violation\")'",
    "kshark live -i any -q -c 10000",
    "kshark live -i eth0 -q -w ring.pcapng -b filesize:100000 -b files:10 --on-violation save=/var/tmp/kshark",
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
        default=SNAP_LENGTH,
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
    add_files(parser)
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
    add_lines(parser)
    add_prometheus(parser)
    parser.set_defaults(fields=[])
    codes = "1 if a rule was broken, 2 if the interface cannot be read, 3 if nothing could be judged, else 0"
    parser.epilog = f"{parser.epilog}\nexit code: {codes}.\n"


def run(args: Namespace) -> int:
    if args.lists_interfaces:
        from kshark.cli.interfaces import print_interfaces  # only needed with -D

        return print_interfaces(args)
    _verify(args)
    files = LiveFiles(args)
    args.quiet = args.quiet or files.takes_output
    has_screen = wants_screen(args)
    engine = Engine(_options(args, files, has_screen=has_screen), registry(args))
    names = engine.back.names
    begin_capture(args, names)
    metrics = serving(args, registry(args))
    screen = begin_screen(args, names, files.save) if has_screen else None
    output = Output(
        args,
        names,
        stream=sys.stderr if files.takes_output else sys.stdout,
        holds_notes=has_screen,
        listing=files.needs_tables,
        changed=[consumer.changed for consumer in (metrics, screen) if consumer is not None],
    )
    files.note = output.note
    # the screen leaves the terminal before the verdict is printed
    consumers: list[Consumer] = [output.lines if screen is None else screen, output]
    if metrics is not None:
        consumers.append(metrics)
    for consumer in (metrics, screen):
        if consumer is not None:
            consumer.judges(output.run)
    capture = _followed(args, output, files) if args.files else _capture(args, output.run, files)
    if screen is None:
        hint = ", Ctrl-C ends" if sys.stderr.isatty() else ""
        output.note(f"{'following' if args.files else 'capturing on'} {', '.join(capture.interfaces)}{hint}")
    running = Running(
        capture,
        engine,
        output.run,
        [*consumers, *files.consumers],
        keys=args.tls_keys.more if args.tls_keys is not None else bytes,
        cut=files.cut,
        recorder=lambda: "" if files.recorder is None else files.recorder.state,
        is_done=lambda: output.lines.is_complete or files.is_complete,
        keeps_packets=files.keeps_packets,
    )
    with ended_by_signals(running.end, bool if screen is None else screen.end):
        with shown_screen(screen, capture.interfaces):
            running.run()
        return output.end(running.totals, has_failed=capture.has_failed)


def _options(args: Namespace, files: LiveFiles, *, has_screen: bool) -> Options:
    """Return how far messages are read: what is shown and counted decides."""
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
    return filtered(read, args)


def _verify(args: Namespace) -> None:
    """Raise UsageError for options that do not belong together, before anything is opened."""
    selection(args)
    fail_on(args)
    if args.files:
        _verify_followed(args)
    elif args.follow:
        raise UsageError("--follow needs a capture file: -r FILE --follow")
    elif not args.interfaces:
        raise UsageError("no interface given; name one with -i (kshark live -D lists them, any stands for all)")


def _verify_followed(args: Namespace) -> None:
    if args.interfaces:
        raise UsageError("-i captures on an interface, and -r follows a file; give one of them")
    if len(args.files) > 1:
        raise UsageError("one file is followed, with the files that are written after it; give one -r")
    if not args.follow:
        raise UsageError("kshark live reads a file only while it is written: -r FILE --follow (kshark check reads one)")
    if args.files[0] == STANDARD_INPUT or is_remote(args.files[0]):
        raise UsageError("a file of this computer can be followed; kshark check reads pipes (-) as they are written")
    if args.filter is not None:
        raise UsageError("-f filters packets of an interface; of a file, -Y filters messages")
    if args.output is not None or args.autostop:
        raise UsageError("-w and -a are for packets of an interface; a file that is followed has its packets already")


def _capture(args: Namespace, run: Run, files: LiveFiles) -> LiveCapture:
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
    try:
        files.open(user, run, capture.interfaces)
        import_all(user)
        give_up_rights(user)
        files.start()
    except UsageError:
        capture.close()
        raise
    return capture


def _followed(args: Namespace, output: Output, files: LiveFiles) -> Followed:
    from kshark.capture.followed import Followed  # only needed with --follow

    followed = Followed(args.files[0], once=args.once, note=output.note)
    files.open(None, output.run, followed.interfaces)
    files.start()
    return followed
