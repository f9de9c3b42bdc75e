"""The APIs that a command knows: Kafka's, those of installed packages, and those of `--dissector`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshark.registry import Registry


def add_dissectors(parser: ArgumentParser) -> None:
    """`--dissector`."""
    parser.add_argument(
        "--dissector",
        dest="dissectors",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file with an API of your own (repeatable)",
    )


def registry(args: Namespace) -> Registry:
    """The APIs of a command line; made once. Raises SchemaError for a file that is no dissector, or whose API another
    one is."""
    return _registry(tuple(args.dissectors))


@cache
def _registry(files: tuple[str, ...]) -> Registry:
    from kshark.registry import Registry  # only who runs a command needs it

    return Registry(files)
