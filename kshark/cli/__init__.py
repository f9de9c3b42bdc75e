"""The command `kshark`: one file per command, each with `arguments(parser)` and `run(args) -> exit code`.

Exit codes: 0 done, nothing wrong; 1 at least one violation; 2 bad usage or unreadable input. Only the command that runs is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kshark.cli.parser import Parser, close_to
from kshark.errors import Error, UsageError

COMMANDS: Final = {
    "read": "every message, one line each; all fields; JSON lines; chosen fields",
    "check": "which rules were broken, by whom, with the evidence; exit code 1 if any was",
    "sessions": "share sessions: who, which epochs, how they ended",
    "stats": "APIs and versions in use, latency, errors, clients, share groups",
    "export": "Parquet tables, the same as kshark-spark writes",
    "report": "a page to read and to pass on: verdict, findings, sessions, latency, evidence; with its data",
    "live": "the same engine on a network interface",
    "explain": "what a finding, an API's fields or an error means",
    "decode": "one message's bytes to JSON",
}
_CLOSED_PIPE: Final = 141
_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts 0.1 s faster without its threads
    words = sys.argv[1:] if argv is None else list(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(words)
    except Error as error:
        print(f"kshark: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere, quietly
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        print(f"kshark: {error.strerror or error}{': ' + str(error.filename) if error.filename else ''}", file=sys.stderr)
        return 2


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
            code: int = module.run(parser.parse(rest))
            return code
        case [other, *_]:
            if other.startswith("-"):
                raise UsageError(f"the command comes first, then its options, as in: kshark read {other} ... (kshark --help lists them)")
            raise UsageError(f'no command "{other}"{close_to(other, COMMANDS)} (kshark --help lists them)')
    raise AssertionError(words)


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = "".join(f"  {name:<{width}}{text}\n" for name, text in COMMANDS.items())
    return (
        "usage: kshark COMMAND [OPTION]... [FILE]...\n\n"
        "Kafka on the wire, from packet captures: who broke which rule, when, and how do you know.\n\n"
        f"{rows}\n"
        "FILE is a pcap or pcapng, also compressed, a folder of them, or - for standard input; several are one capture.\n"
        "kshark COMMAND --help shows a command's options and examples.\n"
    )
