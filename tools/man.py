"""The man pages, from the parsers of the commands: python -m tools.man writes man/*.1 (`make man`).

They have no date and no version, so that they change only with the commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshark.cli.check import EXIT_CODES
from kshark.cli.described import Command, Option, commands
from kshark_spark.cli import described_commands

FOLDER: Final = Path(__file__).resolve().parent.parent / "man"
#: Where bugs are reported.
ISSUES: Final = "https://github.com/kshark/kshark/issues"
_ENVIRONMENT: Final = (
    ("NO_COLOR", "no colours on a terminal"),
    ("FORCE_COLOR", "colours in a pipe, too"),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program with a man page.

    `about` are paragraphs. `least`: commands from which on an option that they share is described once. `status`,
    `environment`: exit codes and variables, with their meanings.
    """

    name: str
    short: str
    operands: str
    about: Sequence[str]
    commands: Sequence[Command]
    least: int
    status: Sequence[tuple[str, str]]
    environment: Sequence[tuple[str, str]]
    see: Sequence[str]


def programs() -> list[Program]:
    """Return the programs of the package."""
    return [
        Program(
            "kshark",
            "analyze Kafka traffic in packet captures",
            "FILE",
            (
                "kshark reads Apache Kafka's protocol from packet captures and says who broke which rule, when, and "
                "how it knows. It decodes every API of Kafka 0.8 to 4.4, and judges share groups (KIP-932), groups, "
                "transactions and fetches.",
                "FILE is a capture: pcap or pcapng, also compressed with gzip or zstd, a folder of them, or - for "
                "standard input. Several files form one capture. A broker's request log is one, too "
                "(https://github.com/kshark/kshark/blob/main/docs/request-log.md). Kafka is "
                "recognised on any port. kshark FILE is kshark check FILE.",
                "Standard output has data, standard error has notes and progress. Credentials are masked unless "
                "--secrets is given.",
            ),
            [*commands()],
            6,
            (
                ("0", "the capture was judged, and nothing is wrong"),
                (
                    "1",
                    "a rule was broken (check, live), a difference is for the worse (diff), or a reason of --fail-on "
                    "applies",
                ),
                ("2", "bad usage, or the input cannot be read; one sentence on standard error says what to do"),
                ("3", "nothing could be judged: TLS without keys, no Kafka, an empty or destroyed file"),
                ("130", "Ctrl-C ended the reading, and no rule was broken up to there"),
            ),
            _ENVIRONMENT,
            ("kshark-spark", "tcpdump", "tshark", "wireshark"),
        ),
        Program(
            "kshark-spark",
            "analyze Kafka traffic in captures of any number and size, on Spark",
            "PATH",
            (
                "kshark-spark computes the findings, tables and reports of kshark on Apache Spark. PATH is a capture, "
                "a folder of them, or the folder of tables of an earlier export (it has manifest.json).",
                "It needs Java 17 or newer, in JAVA_HOME or PATH.",
            ),
            described_commands(),
            3,
            (
                ("0", "the captures were judged, and nothing is wrong"),
                ("1", "a rule was broken (check)"),
                ("2", "bad usage, an input that cannot be read, or a Spark that stopped"),
                ("3", "nothing could be judged"),
            ),
            (("JAVA_HOME", "the folder of Java"), *_ENVIRONMENT),
            ("kshark",),
        ),
    ]


def file_of(program: Program) -> Path:
    """Return the file of a program's page."""
    return FOLDER / f"{program.name}.1"


def page(program: Program) -> str:
    """Return a page as roff."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Program) -> Iterator[str]:
    times = Counter(option for command in program.commands for option in command.options)
    shared = [option for option, count in times.items() if count >= program.least]
    yield '.\\" Written by python -m tools.man; change the commands and run make man.'
    yield f'.TH {program.name.upper()} 1 "" kshark "User Commands"'
    yield from (".SH NAME", f"{_text(program.name)} \\- {_text(program.short)}")
    yield from (".SH SYNOPSIS", f".B {_text(program.name)}", ".I COMMAND")
    yield f"[\\fIOPTION\\fR]... [\\fI{program.operands}\\fR]..."
    yield ".SH DESCRIPTION"
    for paragraph in program.about:
        yield from (".PP", _text(paragraph))
    yield ".SH COMMANDS"
    yield from _list((command.name, command.about) for command in program.commands)
    yield from (".SH SHARED OPTIONS", "Most commands take these; their help lists them.")
    yield from _options(shared)
    yield ".SH OPTIONS OF EACH COMMAND"
    for command in program.commands:
        yield from _command(program.name, command, shared)
    yield ".SH EXIT STATUS"
    yield from _list(program.status)
    yield ".SH ENVIRONMENT"
    yield from _list(program.environment)
    yield from (".SH REPORTING BUGS", f"Bugs and wrong findings: {_text(ISSUES)}")
    yield from (".SH SEE ALSO", ", ".join(f"\\fB{_text(name)}\\fR(1)" for name in program.see))


def _word(argument: Option) -> str:
    """Return an argument as in a synopsis."""
    return f"[{argument.metavar}]" if argument.is_optional else argument.metavar


def _command(program: str, command: Command, shared: Iterable[Option]) -> Iterator[str]:
    words = [_word(it) + "..." * it.is_repeated for it in command.arguments]
    yield f".SS {_text(' '.join((program, command.name, '[OPTION]...', *words)))}"
    yield _text(command.about[0].upper() + command.about[1:] + ".")
    yield from _options(argument for argument in command.arguments if argument.about)
    yield from _options(option for option in command.options if option not in shared and "--help" not in option.names)
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
    for program in programs():
        file_of(program).write_text(page(program))
