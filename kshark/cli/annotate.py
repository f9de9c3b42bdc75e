"""`kshark annotate`: the capture with findings as packet comments, for Wireshark."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Final

from kshark.capture.copying import Copy, copy, need_files
from kshark.cli.check import Checking, add_selection, judging, selection
from kshark.cli.each import captures_of, each
from kshark.cli.parser import Parser, add_captures
from kshark.cli.source import Source
from kshark.cli.writing import copied
from kshark.errors import UsageError
from kshark.evidence.comments import NewComments, add_finding, add_share_messages, signed
from kshark.evidence.files import STANDARD_OUTPUT, appearing, need_output
from kshark.output.sink import Sink
from kshark.pipeline import JUDGED
from kshark.units import counted, number, safe

EXAMPLES = (
    "kshark annotate trace.pcap -o annotated.pcapng",
    "kshark annotate trace.pcap -o annotated.pcapng --messages",
    "kshark annotate trace.pcap -o - --select EPOCH_SKIP_AHEAD | wireshark -k -i -",
)
#: Packets that may have comments, which are held until the capture is written.
MOST_COMMENTED: Final = 1_000_000


def arguments(parser: Parser) -> None:
    add_captures(parser)
    parser.set_defaults(format="text", records=False, display_filter=None)
    parser.add_argument(
        "-o", dest="output", required=True, metavar="FILE", help="the pcapng file; - for standard output"
    )
    parser.add_argument(
        "--messages", action="store_true", help="also each message of share groups and share coordinators, in one line"
    )
    add_selection(parser)
    parser.add_argument("--secrets", action="store_true", help="the file gets the secrets of --tls-keys")


def run(args: Namespace) -> int:
    selection(args)  # report a wrong option before reading anything
    captures = captures_of(args)
    if len(captures) > 1:
        raise UsageError("annotate writes one file; name one capture, or leave out --each")
    need_files(captures[0], "annotate")
    need_output(args.output, captures[0], "-o")
    with judging():
        for _ in each(args, JUDGED, _annotate, captures=captures):
            pass
    return 0


def _annotate(source: Source, args: Namespace, _: Sink) -> None:
    """Judge a capture, and write it again with comments."""
    checking = Checking(args, named=False)
    for page in source:
        checking.page(page)
    checking.close()
    comments: NewComments = {}
    capture = copied(source, args)
    findings = 0
    is_whole = not args.messages or add_share_messages(comments, capture, MOST_COMMENTED)
    for finding in filter(source.shows, checking.findings):
        is_whole = len(comments) < MOST_COMMENTED
        if not is_whole:
            break
        findings += 1
        add_finding(comments, finding)
    with appearing(args.output) as file:
        done = Copy(file.write, comments=signed(comments), keys=capture.keys)
        copy(source.files, [done], clip=capture.clip, left_out=capture.left_out)
    if not is_whole:
        print(
            f"kshark: only the first {number(MOST_COMMENTED)} packets have comments; choose with --select",
            file=sys.stderr,
        )
    if not args.quiet:
        name = "standard output" if args.output == STANDARD_OUTPUT else safe(args.output)
        print(
            f"kshark: wrote {counted(len(done.numbers), 'packet')} to {name}, {number(len(comments))} with comments "
            f'({counted(findings, "finding")}); in Wireshark: frame.comment contains "kshark"',
            file=sys.stderr,
        )
