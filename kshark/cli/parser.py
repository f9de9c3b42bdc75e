"""Argument parsing: argparse with errors of one sentence that names the next step, and the options that several
commands share.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from kshark.cli.apis import add_dissectors
from kshark.cli.tls import add_tls_keys
from kshark.errors import UsageError
from kshark.errors import close_to as close_to


class Parser(argparse.ArgumentParser):
    """The parser of one command. Bad usage raises UsageError; options and files may be in any order."""

    def __init__(self, command: str, text: str, examples: Sequence[str]) -> None:
        super().__init__(
            prog=f"kshark {command}",
            description=text[0].upper() + text[1:] + ".",
            epilog="examples:\n" + "".join(f"  {example}\n" for example in examples),
            formatter_class=_Help,
            allow_abbrev=False,
            add_help=False,
        )
        self._options: list[str] = ["--help"]
        # kshark.cli.source sets them: one of several files cannot be read; Ctrl-C ended the reading
        self.set_defaults(unread=False, interrupted=False)
        self.add_argument("-h", "--help", action="help", help="this text")

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self._options += action.option_strings
        return action

    @property
    def actions(self) -> list[argparse.Action]:
        """The options and arguments, in the order of the help."""
        return [*self._actions]

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        return self.parse_intermixed_args(words)

    def error(self, message: str) -> NoReturn:
        unknown = re.fullmatch(r"unrecognized arguments: (\S+).*", message)
        if unknown and unknown[1].startswith("-"):
            option = unknown[1].partition("=")[0]
            message = f'no option "{option}"{self._instead_of(option)}'
        elif unknown:
            of_live = "; an interface is named with -i, a file with -r" if "-i" in self._options else ""
            message = f'"{unknown[1]}" is one argument too many{of_live}'
        raise UsageError(f"{message} ({self.prog} --help shows them all)")

    def _instead_of(self, option: str) -> str:
        """Return a hint at an option of this command that is meant by another."""
        meant = ELSEWHERE.get(option, "")
        if meant.partition(" ")[0] in self._options:
            return f'; did you mean "{meant}"?'
        return close_to(option, self._options)


#: Options of other programs, and those of kshark that do the same.
ELSEWHERE: Final = {
    "--json": "-T json",
    "--format": "-T",
    "--filter": "-Y",
    "--interface": "-i",
    "--iface": "-i",
    "--write": "-w",
    "--output": "-o",
    "--out": "-o",
    "--verbose": "-V",
    "-v": "-V",
    "--quiet": "-q",
    "--count": "-c",
    "--fields": "-e",
    "--read": "-r",
    "--keylog": "--tls-keys",
    "--keys": "--tls-keys",
    "--port": "-d",
}


class _Help(argparse.RawDescriptionHelpFormatter):
    """Format the options in a column that is wide enough for their names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=110)


def add_captures(parser: Parser) -> None:
    """Add FILE... and the options that restrict or explain them."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="pcap or pcapng, also gzip or zstd; a folder; - for standard input"
    )
    parser.add_argument(
        "-r", dest="more_files", action="append", default=[], metavar="FILE", help="the same as FILE, in tshark style"
    )
    add_each(parser)
    parser.add_argument(
        "--jobs",
        type=jobs,
        default=1,
        metavar="N",
        help="with --each: read captures in N processes (auto: one per core); the output is identical",
    )
    add_restrictions(parser)
    add_max_request_bytes(parser)
    add_tls_keys(parser)
    add_dissectors(parser)
    parser.add_argument("-n", action="store_true", help="no name resolution: kshark never does any")
    parser.add_argument("-q", dest="quiet", action="store_true", help="only the closing summary, no items")


def add_each(parser: Parser) -> None:
    """Add `--each` and `--each-folder`: `each` is "file", "folder", or None for one capture of all files."""
    each = parser.add_mutually_exclusive_group()
    each.add_argument(
        "--each",
        action="store_const",
        const="file",
        default=None,
        help="treat every file as a separate capture, one after the other",
    )
    each.add_argument(
        "--each-folder",
        dest="each",
        action="store_const",
        const="folder",
        help="treat the files of every folder as a separate capture, such as the rotated files of each host",
    )


def add_restrictions(parser: Parser) -> None:
    """Add the period to read, and the ports of Kafka."""
    parser.add_argument(
        "--since", metavar="TIME", help="leave out packets before: +10s after the start, 14:03:07, 2026-11-21T14:03:07Z"
    )
    parser.add_argument("--until", metavar="TIME", help="leave out packets from this time on")
    parser.add_argument(
        "-d",
        dest="decode_as",
        action="append",
        default=[],
        metavar="tcp.port==N,kafka",
        help="treat port N as Kafka, whatever its bytes look like",
    )


def add_max_request_bytes(parser: Parser) -> None:
    """Add `--max-request-bytes`."""
    parser.add_argument(
        "--max-request-bytes",
        type=byte_size,
        metavar="N",
        help="socket.request.max.bytes of the brokers: 209715200, 200MB; by default they accept 100MB",
    )


def add_format(parser: Parser, *formats: str) -> None:
    """Add `-T`, with text as the default."""
    parser.add_argument(
        "-T", dest="format", choices=formats, default="text", metavar="|".join(formats), help="output format (text)"
    )


def add_secrets(parser: Parser) -> None:
    """Add `--secrets`."""
    parser.add_argument(
        "--secrets", action="store_true", help="show credentials: SASL tokens, SCRAM, HMACs, sensitive configurations"
    )


def add_payload(parser: Parser) -> None:
    """Add the options that leave out records or show credentials."""
    parser.add_argument(
        "--no-records", dest="records", action="store_false", help="do not decode record batches: show only their size"
    )
    parser.add_argument(
        "--no-payload",
        dest="payload",
        action="store_false",
        help="leave out keys, values and header values: show only their sizes",
    )
    add_secrets(parser)


def count(text: str) -> int:
    """Parse an argument that is a whole number from 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number from 1')
    return int(text)


def byte_size(text: str) -> int:
    """Parse an argument that is a number of bytes below 2 GB, also in kB, MB or GB (1024 each, as for brokers)."""
    size = _bytes(text)
    if not 0 < size < 1 << 31:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of bytes below 2 GB; write 209715200, or 200MB')
    return size


def disk_size(text: str) -> int:
    """Parse an argument that is a number of bytes of a disk, also in kB, MB, GB or TB (1024 each)."""
    size = _bytes(text)
    if not size:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of bytes; write 4GB')
    return size


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([kKMGT]?)(i?B)?", text)
    return 0 if match is None else int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


def jobs(text: str) -> int:
    """Parse an argument that is a number of processes; `auto`: one for each core."""
    if text != "auto":
        try:
            return count(text)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f'"{text}" is not a number of processes; write 2, or auto for one per core'
            ) from None
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ports(args: argparse.Namespace) -> frozenset[int]:
    """Return the ports named by `-d tcp.port==N,kafka`."""
    numbers = set()
    for rule in args.decode_as:
        match = re.fullmatch(r"tcp\.port\s*==\s*(\d+)\s*,\s*kafka", rule)
        if match is None or int(match[1]) > 65535:
            raise UsageError(f'"{rule}" is not a rule for -d; write -d tcp.port==9092,kafka')
        numbers.add(int(match[1]))
    return frozenset(numbers)
