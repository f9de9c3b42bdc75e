"""The commands as data, for completion and the man page: their options and arguments, and the values of these."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from kshark.analysis import Rule
from kshark.analysis.results.breakdown import KEYS
from kshark.cli import COMMANDS
from kshark.cli.check import FAIL_ON
from kshark.cli.explain import PAGES
from kshark.cli.parser import Parser
from kshark.conditions.fields import COMMON, PREFIX
from kshark.output.catalogue import CODES
from kshark.output.mentions import settings, tickets
from kshark.registry import Registry
from kshark.timeline import KINDS
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.kips import KIPS

#: Kinds of values that the shell itself completes.
FILES: Final = "files"
FOLDERS: Final = "folders"
INTERFACES: Final = "interfaces"
#: The kind of a value by its placeholder in the help; several values are separated by commas where it ends with ",...".
_KINDS: Final = {
    "FILE": FILES,
    "FILE.py": FILES,
    "SEGMENT": FILES,
    "CAPTURE": FILES,
    "PATH": FILES,
    "DIR": FOLDERS,
    "INTERFACE": INTERFACES,
    "CODE,...": "codes",
    "KIND,...": "kinds",
    "KEY,...": "keys",
    "WHAT,...": "reasons",
    "FIELD": "fields",
    "FILTER": "fields",
    "NAME": "names",
    "API": "apis",
}
#: Options with the placeholder of a value that is something else.
_FREE: Final = frozenset({"--group", "--topic", "--member"})


def _apis() -> list[str]:
    return [*Registry().names().values()]


def _fields() -> list[str]:
    """The common fields, and the last part of each body field."""
    from kshark.conditions.fields import Fields

    return [*COMMON, *sorted({PREFIX + name.rpartition(".")[2] for name in Fields(Registry()).names()} - {*COMMON})]


def _names() -> list[str]:
    kips = (f"KIP-{number}" for number in KIPS)
    return sorted({*CODES, *_apis(), *ErrorCode.__members__, *kips, *PAGES, *settings(), *tickets()})


#: The values of each kind that the shell does not know.
VALUES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "codes": lambda: sorted(code for code, rule in CODES.items() if isinstance(rule, Rule)),
    "kinds": lambda: KINDS,
    "keys": lambda: KEYS,
    "reasons": lambda: FAIL_ON,
    "fields": _fields,
    "names": lambda: sorted(
        {
            *CODES,
            *_apis(),
            *ErrorCode.__members__,
            *(f"KIP-{number}" for number in KIPS),
            *PAGES,
            *settings(),
            *tickets(),
        }
    ),
    "apis": _apis,
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or an argument without a name: `names` is empty then.

    `metavar` is the placeholder of its value, empty without one. `values`: the words that it accepts, None if these are
    not all known. `kind`: FILES, FOLDERS, INTERFACES, a key of VALUES, or empty. `is_list`: several values, with commas
    between them. `is_optional`: its value may be left out. `is_repeated`: any number of words.
    """

    names: tuple[str, ...]
    metavar: str
    about: str
    kind: str = ""
    values: tuple[str, ...] | None = None
    is_list: bool = False
    is_optional: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command of kshark or kshark-spark."""

    name: str
    about: str
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]
    examples: tuple[str, ...]
    #: What its help says after the examples.
    notes: str


def commands() -> Iterator[Command]:
    """Yield the commands in the order of `kshark --help`."""
    for name, about in COMMANDS.items():
        module = import_module(f"kshark.cli.{name}")
        parser = Parser(name, about, module.EXAMPLES)
        module.arguments(parser)
        yield described(name, about, parser, module.EXAMPLES)


def described(name: str, about: str, parser: Parser, examples: Iterable[str]) -> Command:
    """Return a command by its complete parser."""
    every = [_option(action, parser) for action in parser.actions if action.help != argparse.SUPPRESS]
    return Command(
        name,
        about,
        tuple(option for option in every if option.names),
        tuple(option for option in every if not option.names),
        tuple(examples),
        (parser.epilog or "").partition("\n\n")[2].strip(),
    )


def _option(action: argparse.Action, parser: Parser) -> Option:
    names = tuple(action.option_strings)
    values = None if action.choices is None else tuple(map(str, action.choices))
    takes_none = action.nargs == 0
    metavar = "" if takes_none else str(action.metavar or "|".join(values or ()) or action.dest.upper())
    about = (action.help or "") % {**vars(action), "prog": parser.prog}
    optional, repeated = action.nargs in ("?", "*"), action.nargs in ("*", "+")
    is_free = takes_none or values is not None or not _FREE.isdisjoint(names)
    kind = "" if is_free else _KINDS.get(metavar, "")
    return Option(names, metavar, about, kind, values, metavar.endswith(",..."), optional, repeated)
