"""`-Y`: the messages that a command shows, with their exchanges and connections."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from kshark.cli.apis import registry
from kshark.model import Closed, Event, Exchange, Message
from kshark.pipeline import Options
from kshark.units import safe

if TYPE_CHECKING:
    from kshark.cli.parser import Parser
    from kshark.conditions.fields import Fields, RequiredDecoding
    from kshark.conditions.filter import Filter
    from kshark.names import TopicNames
    from kshark.registry import Registry


def add_filter(parser: Parser, shown: str) -> None:
    """Add `-Y`; `shown` names what the filter selects."""
    parser.add_argument(
        "-Y",
        dest="display_filter",
        metavar="FILTER",
        help=f"{shown}, as in 'kafka.api == ShareFetch && kafka.error_code > 0'",
    )


def fields(args: Namespace) -> Fields:
    """Return the fields that `-e` and `-Y` may name."""
    return _fields(registry(args))


@cache
def _fields(apis: Registry) -> Fields:
    from kshark.conditions.fields import Fields  # only needed if a field is named

    return Fields(apis)


def display_filter(args: Namespace) -> Filter | None:
    """Return the filter of a command line, created once; None without `-Y`. Raises FilterError."""
    return None if args.display_filter is None else _filter(args.display_filter, fields(args))


@cache
def _filter(text: str, names: Fields) -> Filter:
    from kshark.conditions.filter import Filter

    return Filter(text, names)


def begin_capture(args: Namespace, names: TopicNames | None) -> None:
    """Begin a capture for `-Y` and `-e`: they look up the names of its topic ids in `names`."""
    wanted = getattr(args, "display_filter", None) and display_filter(args)
    if wanted or "kafka.topic" in getattr(args, "fields", ()):
        fields(args).topics.name_of = None if names is None else names.at
    if wanted:
        wanted.begin()


def print_unmatched(args: Namespace) -> None:
    """Print which fields and values of `-Y` no message of the capture had."""
    wanted = getattr(args, "display_filter", None) and display_filter(args)
    for sentence in wanted.unmatched() if wanted else ():
        print(f"kshark: {safe(sentence)}", file=sys.stderr)


def filtered(options: Options, args: Namespace) -> Options:
    """Return the options with the parts of messages that the filter reads. The filter sees masked values as masked."""
    wanted = display_filter(args)
    return (
        options
        if wanted is None
        else replace(with_needs(options, wanted.needs), secrets=getattr(args, "secrets", False))
    )


def with_needs(options: Options, needs: RequiredDecoding) -> Options:
    """Return the options with the parts of messages that fields need."""
    bodies = None if options.bodies is None else options.bodies | needs.bodies
    return replace(
        options, bodies=bodies, records=needs.records or options.records, embedded=needs.embedded or options.embedded
    )


def only_passing(wanted: Filter, page: Iterable[Event], connections: set[int]) -> Iterator[Event]:
    """Yield messages that pass, exchanges with such a message, and the ends of their connections.

    `connections` collects the numbers of connections with such an exchange.
    """
    for event in page:
        if isinstance(event, Message) and wanted.passes(event):
            yield event
        elif isinstance(event, Exchange) and wanted.takes(event):
            connections.add(event.flow.id)
            yield event
        elif isinstance(event, Closed) and event.flow.id in connections:
            connections.discard(event.flow.id)
            yield event
