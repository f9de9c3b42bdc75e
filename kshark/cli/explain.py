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
from typing import Final

from kshark.analysis import REASONS
from kshark.analysis.rules.causes import CAUSES
from kshark.cli.apis import add_dissectors, registry
from kshark.cli.parser import Parser, add_format, close_to
from kshark.conditions.fields import COMMON
from kshark.errors import UsageError
from kshark.metrics import METRICS
from kshark.output.catalogue import CODES
from kshark.output.entries import (
    api_error_lines,
    catalogue_lines,
    cause_lines,
    code_lines,
    error_lines,
    field_lines,
    table_lines,
)
from kshark.output.layouts import api_lines, enum_lines, structure_lines
from kshark.output.metric_entries import metric_named, metrics_lines, named_lines
from kshark.output.occurrences import common_lines, occurrences
from kshark.output.occurrences import field_lines as occurrence_lines
from kshark.output.releases import life_lines, release_lines, rights_lines, whole_life_lines
from kshark.output.rule_table import rule_lines, rule_objects
from kshark.output.sink import Sink
from kshark.output.spans import CODE, DIM, PLAIN, Line
from kshark.output.sql import ENGINES, sql_lines
from kshark.output.tls_keys import tls_keys_lines
from kshark.registry import Registry
from kshark.schema import EnumClass
from kshark_dissectors import enums
from kshark_dissectors.embedded import states
from kshark_dissectors.enums import ErrorCode

EXAMPLES = (
    "kshark explain EPOCH_SKIP_AHEAD",
    "kshark explain skip_after_timeout",
    "kshark explain ShareFetch",
    "kshark explain 123",
    "kshark explain SHARE_SESSION_NOT_FOUND",
    "kshark explain share_session_epoch",
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
ENUMS: Final[dict[str, EnumClass]] = {
    name.lower(): enum
    for name, enum in chain(vars(enums).items(), vars(states).items())
    if isinstance(enum, type) and issubclass(enum, IntEnum) and enum is not IntEnum
}
#: Whole pages by name, from the registry and the width of the terminal.
_PAGES: Final[dict[str, Callable[[Registry, int | None], Iterable[Line]]]] = {
    "tables": lambda apis, width: table_lines(),
    "fields": lambda apis, width: field_lines(),
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
        help="a code, a cause, an API, field, structure or enumeration by name, an error by number or name, life (of "
        "a share group), tables, fields, rules, tls-keys, metrics or the name of a metric; without a name: the "
        "whole catalogue",
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
        if args.names != ["rules"]:
            raise UsageError("-T json works with rules only: kshark explain rules -T json")
        sink.json(rule_objects())
        return 0
    if not args.names:
        sink.lines(catalogue_lines(sink.width))
    for index, name in enumerate(args.names):
        lines = explained(name, apis, sink.width)
        sink.lines(chain([[]], lines) if index else lines)
    return 0


def explained(name: str, apis: Registry, width: int | None) -> Iterable[Line]:
    """Return the explanation of a name in upper or lower case.

    Raises UsageError, with a similar name if there is one, if nothing has that name.
    """
    upper, lower = name.upper(), name.lower()
    if upper in CODES:
        return code_lines(CODES[upper])
    if upper in ErrorCode.__members__:
        return error_lines(ErrorCode[upper])
    if lower in REASONS or lower in CAUSES:
        return _word(lower)
    if lower in _PAGES:
        return _PAGES[lower](apis, width)
    if metrics := metric_named(name):
        return named_lines(metrics)
    if re.fullmatch(r"-?\d+", name):
        return _numbered(int(name), apis)
    key = apis.find(name)
    if key is not None:
        return _api(key, apis)
    if lower in ENUMS:
        return enum_lines(ENUMS[lower])
    return _fields(name, apis)


def _fields(name: str, apis: Registry) -> Iterable[Line]:
    """Return the explanation of a structure or a field. Raises UsageError if there is none of that name."""
    lower = name.lower()
    structures = {structure.lower(): layout for structure, layout in apis.structures().items()}
    if lower in structures:
        return structure_lines(structures[lower])
    if lower in COMMON:
        return common_lines(lower)
    places = occurrences(name, apis)
    if places:
        return occurrence_lines(name, places)
    raise UsageError(_unknown(name, apis))


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
        *_PAGES,
        *apis.structures(),
        *COMMON,
    ]
    names += [metric.name for metrics in METRICS.values() for metric in metrics]
    spelled = {candidate.lower(): candidate for candidate in (*names, *(enum.__name__ for enum in ENUMS.values()))}
    close = close_to(name.lower(), spelled)
    hint = re.sub(r'"(.*)"', lambda match: f'"{spelled[match[1]]}"', close)
    return f'nothing is called "{name}"{hint} (kshark explain lists codes; APIs, errors and fields have Kafka\'s names)'


def _api(key: int, apis: Registry) -> Iterator[Line]:
    api = apis.api(key)
    if api is None:
        yield [
            (apis.name(key) or "", "api"),
            (f"  API {key} · versions {apis.versions(key)} · kshark does not decode its body", ""),
        ]
        yield from release_lines(key)
        return
    yield from api_lines(api, apis)
    yield from release_lines(key)
    yield from rights_lines(key)
    yield from life_lines(key, apis)
    yield from api_error_lines(api.name)


def _numbered(number: int, apis: Registry) -> Iterable[Line]:
    """Return the lines of the error with that number; they also name the API with that key."""
    names = {member.value: member for member in ErrorCode}
    api = apis.name(number)
    if number not in names:
        hint = f"; API {number} is {api} (kshark explain {api})" if api else ""
        raise UsageError(f"Kafka has no error {number}{hint} (errors are numbered from {min(names)} to {max(names)})")
    yield from error_lines(names[number])
    if api is not None:
        yield []
        yield [(f"API {number} is {api}: kshark explain {api}", DIM)]
