"""The registry of APIs for a command: Kafka's, those of installed packages, and those of `--dissector`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshark.registry import Registry


def add_dissectors(parser: ArgumentParser) -> None:
    """Add `--dissector`."""
    parser.add_argument(
        "--dissector",
        dest="dissectors",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file with an API of your own (repeatable)",
    )


def registry(args: Namespace) -> Registry:
    """Return the registry of a command line, created once.

    Raises SchemaError for a file that is not a dissector, or whose API is already registered.
    """
    return _registry(tuple(args.dissectors))


@cache
def _registry(files: tuple[str, ...]) -> Registry:
    from kshark.registry import Registry  # only needed when a command runs

    return Registry(files)
