"""`kshark explain`: the catalogue, Kafka's APIs, errors, fields and enumerations, from the data that kshark itself
uses.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import chain
from typing import Any, Final

from kshark.analysis import REASONS, Rule
from kshark.analysis.rules.causes import CAUSES
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.parser import Parser, add_format, close_to
from kshark.conditions.fields import COMMON
from kshark.errors import UsageError
from kshark.metrics import METRICS
from kshark.output.api_entries import api_object, api_page
from kshark.output.catalogue import CODES, EVERY_RULE
from kshark.output.entries import catalogue_lines, cause_lines, code_lines, field_lines, table_lines
from kshark.output.error_entries import error_lines, error_object
from kshark.output.kip_entries import kip_lines, kip_number, kip_object, kips_lines
from kshark.output.layouts import enum_lines, structure_lines
from kshark.output.mentions import setting_lines, settings, ticket_lines, tickets
from kshark.output.metric_entries import metric_named, metrics_lines, named_lines
from kshark.output.occurrences import common_lines, occurrences
from kshark.output.occurrences import field_lines as occurrence_lines
from kshark.output.other_names import former_name, other_names, term
from kshark.output.releases import whole_life_lines
from kshark.output.rule_table import rule_lines, rule_objects
from kshark.output.sink import Sink
from kshark.output.spans import CODE, DIM, PLAIN, Line, folded
from kshark.output.sql import ENGINES, sql_lines
from kshark.output.tls_keys import tls_keys_lines
from kshark.registry import Registry
from kshark.schema import EnumClass
from kshark_dissectors import enums
from kshark_dissectors.embedded import states
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.kips import KIPS

EXAMPLES = (
    "kshark explain EPOCH_SKIP_AHEAD",
    "kshark explain skip_after_timeout",
    "kshark explain ShareFetch",
    "kshark explain 123",
    "kshark explain SHARE_SESSION_NOT_FOUND",
    "kshark explain share_session_epoch",
    "kshark explain KIP-1222",
    "kshark explain kips",
    "kshark explain KAFKA-19950",
    "kshark explain max.poll.interval.ms",
    "kshark explain rule 28",
    "kshark explain SPSO NotLeaderForPartitionException",
    "kshark explain ShareFetch -T json | jq '.errors[].error'",
    "kshark explain OffsetCommitValue AclOperation",
    "kshark explain life",
    "kshark explain tables",
    "kshark explain tables --sql > tables.sql",
    "kshark explain fields",
    "kshark explain metrics",
    "kshark explain rules",
    "kshark explain rules -T json | jq 'select(.blame == [\"broker\"])'",
    "kshark explain tls-keys",
    "kshark explain",
)
_RULE: Final = re.compile(r"rule[ -]?([0-9]{1,6})", re.IGNORECASE)
#: Columns of a sentence outside a terminal.
_WIDTH: Final = 100
ENUMS: Final[dict[str, EnumClass]] = {
    name.lower(): enum
    for name, enum in chain(vars(enums).items(), vars(states).items())
    if isinstance(enum, type) and issubclass(enum, IntEnum) and enum is not IntEnum
}
#: Whole pages by name, from the registry and the width of the terminal.
PAGES: Final[dict[str, Callable[[Registry, int | None], Iterable[Line]]]] = {
    "tables": lambda apis, width: table_lines(),
    "fields": lambda apis, width: field_lines(),
    "kips": lambda apis, width: kips_lines(width),
    "life": lambda apis, width: whole_life_lines(apis),
    "metrics": lambda apis, width: metrics_lines(),
    "rules": lambda apis, width: rule_lines(width),
    "tls-keys": lambda apis, width: tls_keys_lines(width),
}


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a code, rule 28, a cause, an API, field, structure or enumeration by name, an error by number or name, a "
        "KIP, a ticket or a setting that rules name, a name of the old protocol guide; kips, life (of a share group), "
        "tables, fields, rules, tls-keys, metrics or the name of a metric; without a name: the whole catalogue",
    )
    add_format(parser, "text", "json")
    parser.add_argument(
        "--sql",
        nargs="?",
        const="duckdb",
        choices=ENGINES,
        metavar="duckdb|spark",
        help="with tables: example queries, and views that name errors, APIs and releases; default: duckdb",
    )
    add_dissectors(parser)


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    apis = registry(args)
    if args.sql:
        if args.names != ["tables"]:
            raise UsageError("--sql works with tables only: kshark explain tables --sql")
        sink.lines(sql_lines(args.sql, apis))
        return 0
    if args.format == "json":
        sink.json(rule_objects() if args.names == ["rules"] else [_object(name, apis) for name in args.names or [""]])
        return 0
    if not args.names:
        sink.lines(catalogue_lines(sink.width))
    for index, name in enumerate(_joined(args.names)):
        lines = explained(name, apis, sink.width)
        sink.lines(chain([[]], lines) if index else lines)
    return 0


def explained(name: str, apis: Registry, width: int | None) -> Iterable[Line]:
    """Return the explanation of a name in upper or lower case.

    Raises UsageError, with a similar name if there is one, if nothing has that name.
    """
    upper, lower = name.upper(), name.lower()
    if (numbered := _RULE.fullmatch(name)) is not None:
        return _numbered(int(numbered[1]))
    error = _error(name, apis)
    if upper in CODES:  # some rules have the name of the error that they explain
        return chain(code_lines(CODES[upper]), [] if error is None else chain([[]], error_lines(error, apis)))
    if error is not None:
        return _error_page(name, error, apis)
    if lower in REASONS or lower in CAUSES:
        return _word(lower)
    if lower in PAGES:
        return PAGES[lower](apis, width)
    if metrics := metric_named(name):
        return named_lines(metrics)
    if (number := kip_number(name)) is not None:
        _must_be_known(number)
        return kip_lines(number, apis, width)
    if (key := apis.find(name)) is not None:
        return api_page(key, apis, width)
    if lower in ENUMS:
        return enum_lines(ENUMS[lower])
    return _other(name, apis, width)


def _other(name: str, apis: Registry, width: int | None) -> Iterable[Line]:
    """Return the explanation of a ticket, a setting, a term, a structure, a field or an old name. Raises UsageError if
    it is none.
    """
    if (ticket := {known.lower(): known for known in tickets()}.get(name.lower())) is not None:
        return ticket_lines(ticket, width)
    if name.lower() in settings():
        return setting_lines(name.lower(), width)
    meant = term(name)
    if meant is None:
        lines = _fields(name, apis, width)
        if lines is not None:
            return lines
        meant = former_name(name, apis)
    if meant is None:
        raise UsageError(_unknown(name, apis))
    page = explained(meant.see, apis, width) if meant.see else ()
    return chain(folded(meant.line, width or _WIDTH), [[]] if meant.see else [], page)


def _error(name: str, apis: Registry) -> ErrorCode | None:
    """Return the error with this name or number. Raises UsageError for a number that is none."""
    if name.upper() in ErrorCode.__members__:
        return ErrorCode[name.upper()]
    if not re.fullmatch("-?[0-9]{1,9}", name):
        return None
    if int(name) in ErrorCode._value2member_map_:
        return ErrorCode(int(name))
    numbers = [error.value for error in ErrorCode]
    api = apis.name(int(name))
    hint = f"; API {name} is {api} (kshark explain {api})" if api else ""
    for rule in _rules(int(name)):
        hint += f"; rule {name} is {rule.code} (kshark explain {rule.code})"
    raise UsageError(f"Kafka has no error {name}{hint} (errors are numbered from {min(numbers)} to {max(numbers)})")


def _error_page(name: str, error: ErrorCode, apis: Registry) -> Iterator[Line]:
    """Yield the lines of an error; those of a number also name the API and the rules with that number."""
    yield from error_lines(error, apis)
    if name.upper() == error.name:
        return
    api = apis.name(error.value)
    others = [] if api is None else [f"API {error.value} is {api}: kshark explain {api}"]
    others += [f"rule {error.value} is {rule.code}: kshark explain {rule.code}" for rule in _rules(error.value)]
    yield from [[]] if others else []
    yield from ([(line, DIM)] for line in others)


def _rules(number: int) -> list[Rule]:
    """Return the rules with a number of the catalogue."""
    return [rule for rule in EVERY_RULE if rule.number == number]


def _numbered(number: int) -> Iterable[Line]:
    """Return the pages of the rules with a number. Raises UsageError if there is none."""
    rules = _rules(number)
    if not rules:
        numbers = [rule.number for rule in EVERY_RULE if rule.number is not None]
        raise UsageError(
            f"no rule has the number {number}; they are numbered from {min(numbers)} to {max(numbers)} (kshark explain "
            "rules lists them)"
        )
    return chain.from_iterable(chain([[]] if index else [], code_lines(rule)) for index, rule in enumerate(rules))


def _joined(names: Iterable[str]) -> Iterator[str]:
    """Yield the names; `rule 28` in two words is one."""
    words = iter(names)
    for word in words:
        yield f"{word} {next(words, '')}".strip() if word.lower() == "rule" else word


def _must_be_known(kip: int) -> None:
    """Raise UsageError for a proposal that is not in KIPS."""
    if kip not in KIPS:
        raise UsageError(
            f"KIP-{kip} is not among the proposals that changed the protocol (kshark explain kips lists those that are)"
        )


def _object(name: str, apis: Registry) -> dict[str, Any]:
    """Return an API, an error or a proposal as an object. Raises UsageError for other names."""
    if (number := kip_number(name)) is not None:
        _must_be_known(number)
        return kip_object(number, apis)
    if (error := _error(name, apis)) is not None:
        return error_object(error, apis)
    if (key := apis.find(name)) is not None:
        return api_object(key, apis)
    raise UsageError(
        "-T json works with APIs, errors, KIPs and rules only: kshark explain ShareFetch -T json, kshark explain rules "
        "-T json"
    )


def _fields(name: str, apis: Registry, width: int | None) -> Iterable[Line] | None:
    """Return the explanation of a structure or a field; None if there is none of that name."""
    lower = name.lower()
    structures = {structure.lower(): layout for structure, layout in apis.structures().items()}
    if lower in structures:
        return structure_lines(structures[lower], width)
    if lower in COMMON:
        return common_lines(lower)
    places = occurrences(name, apis)
    return occurrence_lines(name, places, width) if places else None


def _word(word: str) -> Iterator[Line]:
    """Yield the lines of a reason, a cause, or both."""
    if word in REASONS:
        yield [(word, CODE), ("  why a finding is unknown", DIM)]
        yield [(REASONS[word], PLAIN)]
    if word in CAUSES:
        yield from chain([[]] if word in REASONS else [], cause_lines(word))


def _unknown(name: str, apis: Registry) -> str:
    names = [
        *CODES,
        *REASONS,
        *CAUSES,
        *ErrorCode.__members__,
        *apis.names().values(),
        *PAGES,
        *apis.structures(),
        *COMMON,
        *other_names(),
        *settings(),
        *tickets(),
        *(f"KIP-{number}" for number in KIPS),
    ]
    names += [metric.name for metrics in METRICS.values() for metric in metrics]
    spelled = {candidate.lower(): candidate for candidate in (*names, *(enum.__name__ for enum in ENUMS.values()))}
    close = close_to(name.lower(), spelled)
    hint = re.sub(r'"(.*)"', lambda match: f'"{spelled[match[1]]}"', close)
    return f'nothing is called "{name}"{hint} (kshark explain lists codes; APIs, errors and fields have Kafka\'s names)'
