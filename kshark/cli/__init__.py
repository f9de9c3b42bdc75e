"""The command `kshark`: one file per command, each with `arguments(parser)` and `run(args) -> exit code`.

Only the command that runs is imported. kshark.cli.ending handles errors and exit codes.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kshark.cli.ending import INTERRUPTED, ended
from kshark.cli.parser import Parser, close_to
from kshark.errors import UsageError

#: Objects allocated before the garbage collector visits the youngest generation. Messages form no cycles, and a batch
#: allocates fewer objects than this; the objects of modules live as long as the program.
_YOUNG: Final = 500_000

COMMANDS: Final = {
    "read": "every message, one line each; all fields; JSON lines; chosen fields",
    "check": "broken rules: who broke which, with the evidence; exit code 1 if any was broken",
    "events": "the timeline: brokers silent or down, leaders moved, topics made and deleted, groups, administration",
    "sessions": "share sessions: members, epochs, how they ended",
    "groups": "share, consumer and classic groups: states, epochs, members, assignments, coordinators, administration",
    "deliveries": "records that share groups have in flight: their holders, and the history of one record",
    "diff": "two captures, before and after a change: what got worse, with the evidence",
    "stats": "APIs and versions in use, latency, errors, clients, share groups",
    "annotate": "the capture with findings as packet comments, for Wireshark",
    "export": "Parquet tables, the same as kshark-spark writes",
    "report": "an HTML page and its data: verdict, findings, sessions, latency, evidence",
    "live": "the same engine on a network interface",
    "wireshark": "a Lua dissector for Wireshark and tshark: every API, from the same field tables",
    "explain": "what a finding, an API's fields or an error means",
    "decode": "one message's bytes to JSON",
    "demo": "a capture that comes with kshark: what went wrong in it, and commands to try",
    "completion": "completion of commands, options and codes for bash or zsh",
}


#: Commands of other programs, and what does the same here.
_RECORD: Final = "to record packets: kshark live -i eth0 -w trace.pcap"
_ELSEWHERE: Final = {
    "version": "kshark --version prints it",
    "record": _RECORD,
    "capture": _RECORD,
    "dump": _RECORD,
    "sniff": _RECORD,
    "interfaces": "kshark live -D lists them",
    "validate": "kshark check judges a capture",
    "analyze": "kshark check judges a capture",
    "convert": "kshark export writes Parquet, kshark read -T json JSON lines",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts 0.1 s faster without its threads
    gc.set_threshold(_YOUNG, 50, 100)  # before any import: collections during imports take 15 ms
    words = sys.argv[1:] if argv is None else list(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    return ended("kshark", lambda: _run(words))


def _run(words: Sequence[str]) -> int:
    match words:
        case []:
            print(_help(), file=sys.stderr, end="")
            return 2
        case ["help", command, *_] if command in COMMANDS:
            return _run([command, "--help"])
        case ["help"] | ["-h" | "--help", *_]:
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
            if args.interrupted:
                return code if code == 1 else INTERRUPTED
            return code or 2 * args.unread
        case [file, *_] if _is_capture(file):
            return _run(["check", *words])
        case ["help", other, *_] | [other, *_]:
            if other.startswith("-"):
                raise UsageError(
                    f"the command comes first, then its options, as in: kshark read {other} ... (kshark --help lists "
                    f"them)"
                )
            hint = f"; {_ELSEWHERE[other]}" if other in _ELSEWHERE else close_to(other, COMMANDS)
            raise UsageError(f'no command "{other}"{hint} (kshark --help lists them)')
    raise AssertionError(words)


def _is_capture(word: str) -> bool:
    """True if the first word is no command but a file, a folder or standard input: `kshark FILE` checks it."""
    if word == "-" or word.startswith("-"):
        return word == "-"
    return os.path.exists(word) or os.sep in word or word.lower().removesuffix(".gz").endswith((".pcap", ".pcapng"))


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = "".join(f"  {name:<{width}}{text}\n" for name, text in COMMANDS.items())
    return (
        "usage: kshark COMMAND [OPTION]... [FILE]...\n\n"
        "Analyze Kafka traffic in packet captures: who broke which rule, when, and the evidence.\n\n"
        f"{rows}\n"
        "FILE is a pcap or pcapng file (may be compressed), a folder of them, or - for standard input. Several files "
        "form one capture.\nA broker's request log is one too (https://github.com/kshark/kshark/blob/main/docs/request-log.md)"
        ".\nkshark FILE is kshark check FILE. kshark COMMAND --help shows a command's options and examples.\n"
        "Report bugs and wrong findings at https://github.com/kshark/kshark/issues\n"
    )
