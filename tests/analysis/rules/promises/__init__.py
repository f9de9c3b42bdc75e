"""What the rows promise: for each verdict, cause and party that a rule can name, a conversation that brings it about.

said.txt holds what is said of each in full; `python -m tests.golden` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec

from kshark import limits
from kshark.model import Finding
from tests.analysis.rules.promises import connections, ends, epochs, partitions, recovery, requests
from tests.analysis.rules.promises.promise import PROMISES, ROOM, Promise
from tests.conversation import Conversation, findings
from tests.golden.writer import paragraph

SAID: Final = Path(__file__).with_name("said.txt")


def said_of(talk: Conversation, *, exact: bool = False) -> list[Finding]:
    with patch.object(limits, "SESSIONS", ROOM):
        return findings(talk, exact=exact)


def sentences() -> Iterator[str]:
    """What, why and on what evidence, of each promise."""
    for promise in PROMISES:
        yield promise.__name__.replace("_", " ")
        for finding in said_of(promise()[0]):
            yield from islice(paragraph(msgspec.to_builtins(finding)), 3)
        yield ""


__all__ = ["PROMISES", "SAID", "Promise", "connections", "ends", "epochs", "partitions", "recovery", "requests", "said_of", "sentences"]
