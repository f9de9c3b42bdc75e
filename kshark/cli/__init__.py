"""The command `kshark`: one file per command, each with `arguments(parser)` and `run(args) -> exit code`.

Only the command that runs is imported. How it ends, and with which exit code: kshark.cli.ending.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kshark.cli.ending import ended
from kshark.cli.parser import Parser, close_to
from kshark.errors import UsageError

#: Objects that may be made before the garbage collector looks at the young ones: messages form no cycles, and a batch
#: makes fewer; what modules are made of stays.
_YOUNG: Final = 500_000

COMMANDS: Final = {
    "read": "every message, one line each; all fields; JSON lines; chosen fields",
    "check": "which rules were broken, by whom, with the evidence; exit code 1 if any was",
    "sessions": "share sessions: who, which epochs, how they ended",
    "groups": "share, consumer and classic groups: states, epochs, members, assignments, coordinators, administration",
    "deliveries": "records that share groups have in flight: who holds them, what became of one",
    "stats": "APIs and versions in use, latency, errors, clients, share groups",
    "export": "Parquet tables, the same as kshark-spark writes",
    "report": "a page to read and to pass on: verdict, findings, sessions, latency, evidence; with its data",
    "live": "the same engine on a network interface",
    "explain": "what a finding, an API's fields or an error means",
    "decode": "one message's bytes to JSON",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts 0.1 s faster without its threads
    gc.set_threshold(_YOUNG, 50, 100)  # before anything is imported: to look at that again and again takes 15 ms
    words = sys.argv[1:] if argv is None else list(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    return ended("kshark", lambda: _run(words))


def _run(words: Sequence[str]) -> int:
    match words:
        case []:
            print(_help(), file=sys.stderr, end="")
            return 2
        case ["-h" | "--help" | "help", *_]:
            print(_help(), end="")
            return 0
        case ["-V" | "--version", *_]:
            from kshark import __version__

            print(f"kshark {__version__}")
            return 0
        case [command, *rest] if command in COMMANDS:
            module = import_module(f"kshark.cli.{command}")
            parser = Parser(command, COMMANDS[command], module.EXAMPLES)
            module.arguments(parser)
            args = parser.parse(rest)
            code: int = module.run(args)
            return code or 2 * args.unread
        case [other, *_]:
            if other.startswith("-"):
                raise UsageError(
                    f"the command comes first, then its options, as in: kshark read {other} ... (kshark --help lists "
                    f"them)"
                )
            raise UsageError(f'no command "{other}"{close_to(other, COMMANDS)} (kshark --help lists them)')
    raise AssertionError(words)


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = "".join(f"  {name:<{width}}{text}\n" for name, text in COMMANDS.items())
    return (
        "usage: kshark COMMAND [OPTION]... [FILE]...\n\n"
        "Kafka on the wire, from packet captures: who broke which rule, when, and how do you know.\n\n"
        f"{rows}\n"
        "FILE is a pcap or pcapng, also compressed, a folder of them, or - for standard input; several are one "
        "capture.\n"
        "kshark COMMAND --help shows a command's options and examples.\n"
    )
