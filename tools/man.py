"""The man page of kshark, from the parsers of its commands: python -m tools.man writes man/kshark.1 (`make man`).

It has no date and no version, so that it changes only with the commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kshark.cli.check import EXIT_CODES
from kshark.cli.described import Command, Option, commands

PAGE: Final = Path(__file__).resolve().parent.parent / "man" / "kshark.1"
#: Commands from which on an option that they share is described once.
_SHARED_BY: Final = 6
_ABOUT: Final = (
    "kshark reads Apache Kafka's protocol from packet captures and says who broke which rule, when, and how it knows. "
    "It decodes every API of Kafka 0.8 to 4.4, and judges share groups (KIP-932), groups, transactions and fetches.",
    "FILE is a capture: pcap or pcapng, also compressed with gzip or zstd, a folder of them, or - for standard input. "
    "Several files form one capture. A broker's request log is one, too. Kafka is recognised on any port. kshark FILE "
    "is kshark check FILE.",
    "Standard output has data, standard error has notes and progress. Credentials are masked unless \\-\\-secrets is "
    "given.",
)
_EXIT: Final = (
    ("0", "the capture was judged, and nothing is wrong"),
    ("1", "a rule was broken (check, live), a difference is for the worse (diff), or a reason of --fail-on applies"),
    ("2", "bad usage, or the input cannot be read; one sentence on standard error says what to do"),
    ("3", "nothing could be judged: TLS without keys, no Kafka, an empty or destroyed file"),
    ("130", "Ctrl-C ended the reading, and no rule was broken up to there"),
)
_ENVIRONMENT: Final = (
    ("NO_COLOR", "no colours on a terminal"),
    ("FORCE_COLOR", "colours in a pipe, too"),
)


def page() -> str:
    """Return the page as roff."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    every = [*commands()]
    times = Counter(option for command in every for option in command.options)
    shared = [option for option, count in times.items() if count >= _SHARED_BY]
    yield '.\\" Written by python -m tools.man; change the commands and run make man.'
    yield '.TH KSHARK 1 "" kshark "User Commands"'
    yield from (".SH NAME", "kshark \\- analyze Kafka traffic in packet captures")
    yield from (".SH SYNOPSIS", ".B kshark", ".I COMMAND", "[\\fIOPTION\\fR]... [\\fIFILE\\fR]...")
    yield ".SH DESCRIPTION"
    for paragraph in _ABOUT:
        yield from (".PP", paragraph)
    yield ".SH COMMANDS"
    yield from _list((command.name, command.about) for command in every)
    yield from (".SH SHARED OPTIONS", "Most commands take these; their help lists them.")
    yield from _options(shared)
    yield ".SH OPTIONS OF EACH COMMAND"
    for command in every:
        yield from _command(command, shared)
    yield ".SH EXIT STATUS"
    yield from _list(_EXIT)
    yield ".SH ENVIRONMENT"
    yield from _list(_ENVIRONMENT)
    yield from (".SH SEE ALSO", ".BR tcpdump (1),", ".BR tshark (1),", ".BR wireshark (1)")


def _command(command: Command, shared: Iterable[Option]) -> Iterator[str]:
    words = [f"[{it.metavar}]..." if it.is_repeated else it.metavar for it in command.arguments]
    yield f".SS kshark {_text(' '.join((command.name, '[OPTION]...', *words)))}"
    yield _text(command.about[0].upper() + command.about[1:] + ".")
    yield from _options(argument for argument in command.arguments if argument.about)
    yield from _options(
        option for option in command.options if option not in shared and option.names != ("-h", "--help")
    )
    notes = "" if command.notes == EXIT_CODES.strip() else command.notes  # the section of that name has these
    if notes:
        yield from (".PP", *map(_text, notes.split("\n")))
    yield from (".PP", "Examples:", ".PP", ".nf", ".RS 4", *map(_text, command.examples), ".RE", ".fi")


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
        metavar = f"\\fI{_text(option.metavar)}\\fR" if option.metavar else ""
        yield from (".TP", " ".join(filter(None, (names, metavar))), _text(option.about))


def _list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f"\\fB{_text(name)}\\fR", _text(text))


def _text(text: str) -> str:
    """Escape the characters that roff would take for its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    PAGE.write_text(page())
