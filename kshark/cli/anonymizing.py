"""The options for pseudonyms."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from kshark.cli.parser import Parser

if TYPE_CHECKING:
    from kshark.anonymous import Pseudonyms


def add_anonymity(parser: Parser, what: str) -> None:
    """Add `--anonymize` and its key. `what`: the help of the first."""
    parser.add_argument("--anonymize", action="store_true", help=what)
    parser.add_argument(
        "--anonymize-key", metavar="KEY", help="the same pseudonyms in every run with this key (default: random)"
    )


def pseudonyms(args: Namespace) -> Pseudonyms | None:
    """Return the pseudonyms that the options ask for; None without them."""
    if not args.anonymize and args.anonymize_key is None:
        return None
    from kshark.anonymous import Pseudonyms  # only needed with the option

    return Pseudonyms(None if args.anonymize_key is None else args.anonymize_key.encode(errors="surrogateescape"))
