"""`kshark demo`: check the capture that comes with kshark, and name the commands to try on it."""

from __future__ import annotations

import gzip
import sys
from argparse import Namespace
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import PurePath
from typing import Final

from kshark.cli.parser import Parser
from kshark.evidence.files import STANDARD_OUTPUT, appearing, need_output
from kshark.output.sink import Sink
from kshark.output.spans import API, DIM, PLAIN, Line, folded
from kshark.units import safe, size

EXAMPLES = ("kshark demo", "kshark demo --save demo.pcap", "kshark demo --save - | kshark events -")
#: captures/aimed-4.1.2.pcap, compressed.
SAMPLE: Final = "lost-session.pcap.gz"
_NAME: Final = "demo.pcap"
#: Columns of a sentence outside a terminal.
_WIDTH: Final = 100
_ABOUT: Final = (
    "A share consumer stops getting records, and its log says nothing. The packets do: a Kafka 4.1.2 broker and eight "
    "small clients, recorded for 22 seconds."
)
#: Commands, and what they show.
NEXT: Final = (
    ("kshark check {file} --details SESSION_KILLED_BY_OLD_CONNECTION", "the evidence of one finding"),
    ("kshark explain SESSION_KILLED_BY_OLD_CONNECTION", "the rule, its causes, and what to do"),
    ("kshark events {file}", "the timeline"),
    ("kshark sessions {file} -V -Y 'kafka.client_id == A8'", "the lost session, request by request"),
    ("kshark read {file} -Y 'kafka.error_code != 0'", "every refused request"),
    ("kshark check {file} --evidence evidence/", "a small capture of each finding, to hand on"),
)


def arguments(parser: Parser) -> None:
    parser.add_argument("--save", metavar="FILE", help="only write the capture to FILE (- for standard output)")


def run(args: Namespace) -> int:
    sample = files("kshark") / "samples" / SAMPLE
    if args.save is not None:
        need_output(args.save, (), "--save")
        data = gzip.decompress(sample.read_bytes())
        with appearing(args.save) as output:
            output.write(data)
        if args.save != STANDARD_OUTPUT:
            print(f"kshark: wrote the capture ({size(len(data))}) to {safe(args.save)}", file=sys.stderr)
        return 0
    sink = Sink(sys.stdout)
    sink.lines([*folded([(_ABOUT, PLAIN)], sink.width or _WIDTH, 0), [], [(f"$ kshark check {_NAME}", API)]])
    check = import_module("kshark.cli.check")
    parser = Parser("check", "check", check.EXAMPLES)
    check.arguments(parser)
    with as_file(sample) as path:
        check.run(parser.parse([str(PurePath(path))]))
    sink.lines(_next_lines(sink.width))
    return 0


def _next_lines(columns: int | None) -> list[Line]:
    """Return the commands to try, on a copy of the capture; what they show, where a terminal has room for it."""
    save = (f"kshark demo --save {_NAME}", "the capture as a file, for the next ones")
    rows = [save, *((command.format(file=_NAME), about) for command, about in NEXT)]
    width = max(len(command) for command, _ in rows) + 2
    has_room = columns is None or max(width + len(about) for _, about in rows) + 2 <= columns
    lines: list[Line] = [
        [(f"  {command:<{width}}", API), (about, DIM)] if has_room else [(f"  {command}", API)]
        for command, about in rows
    ]
    own = "Then your own: kshark check YOUR.pcap. Its exit code is 1 if a rule was broken; that of a demo is 0."
    return [[], [("Next:", PLAIN)], *lines, [(own, PLAIN)]]
