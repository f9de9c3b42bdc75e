"""`kshark explain`: the catalogue, Kafka's APIs and errors, tables and fields, from the data that kshark itself works with."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterable

from dissectors.enums import ErrorCode
from kshark.analysis import REASONS
from kshark.anomaly import CATALOGUE
from kshark.cli.parser import Parser, close_to
from kshark.errors import UsageError
from kshark.output.entries import api_error_lines, catalogue_lines, code_lines, error_lines, field_lines, table_lines
from kshark.output.layouts import api_lines
from kshark.output.sink import Sink
from kshark.output.spans import CODE, DIM, PLAIN, Line
from kshark.registry import Registry

EXAMPLES = (
    "kshark explain EPOCH_SKIP_AHEAD",
    "kshark explain ShareFetch",
    "kshark explain 123",
    "kshark explain SHARE_SESSION_NOT_FOUND",
    "kshark explain tables",
    "kshark explain fields",
    "kshark explain",
)


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a code, an API by name, an error by number or name, tables, or fields; none: the whole catalogue",
    )


def run(args: Namespace) -> int:
    sink = Sink(sys.stdout)
    registry = Registry()
    if not args.names:
        sink.lines(catalogue_lines())
    for index, name in enumerate(args.names):
        lines = explained(name, registry)
        sink.lines([[], *lines] if index else lines)
    return 0


def explained(name: str, registry: Registry) -> Iterable[Line]:
    """Whatever has that name, upper or lower case. Raises UsageError, with what comes close, where nothing has."""
    upper = name.upper()
    if upper in CATALOGUE:
        return code_lines(CATALOGUE[upper])
    if upper in ErrorCode.__members__:
        return error_lines(ErrorCode[upper])
    if name.lower() in REASONS:
        return [[(name.lower(), CODE), ("  why a finding is unknown", DIM)], [(REASONS[name.lower()], PLAIN)]]
    if upper == "TABLES":
        return table_lines()
    if upper == "FIELDS":
        return field_lines()
    if re.fullmatch(r"-?\d+", name):
        return _numbered(int(name), registry)
    key = registry.find(name)
    if key is None:
        known = [*CATALOGUE, *REASONS, *ErrorCode.__members__, *registry.names().values(), "tables", "fields"]
        spelled = {each.lower(): each for each in known}
        close = close_to(name.lower(), spelled)
        hint = re.sub(r'"(.*)"', lambda match: f'"{spelled[match[1]]}"', close)
        raise UsageError(f'nothing is called "{name}"{hint} (kshark explain lists codes; APIs and errors have Kafka\'s names)')
    api = registry.api(key)
    if api is None:
        return [[(registry.name(key) or name, "api"), (f"  API {key} · versions {registry.versions(key)} · its body is not read", "")]]
    return [*api_lines(api), *api_error_lines(api.name)]


def _numbered(number: int, registry: Registry) -> Iterable[Line]:
    """A number is an error's; an API that has it too is named."""
    names = {member.value: member for member in ErrorCode}
    api = registry.name(number)
    if number not in names:
        hint = f"; API {number} is {api} (kshark explain {api})" if api else ""
        raise UsageError(f"Kafka has no error {number}{hint} (errors are numbered from {min(names)} to {max(names)})")
    yield from error_lines(names[number])
    if api is not None:
        yield []
        yield [(f"API {number} is {api}: kshark explain {api}", DIM)]
