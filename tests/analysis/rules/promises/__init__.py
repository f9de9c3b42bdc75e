"""What the rows promise: for each verdict, cause and party that a rule can name, a conversation that brings it about.

said.txt holds what is said of each in full; `python -m tests.golden` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules
from typing import Final
from unittest.mock import patch

import msgspec

from kshark import limits
from kshark.model import Finding
from tests.analysis.rules.promises.promise import PROMISES, ROOM, Promise
from tests.conversation import everything, findings
from tests.golden.writer import paragraph

SAID: Final = Path(__file__).with_name("said.txt")


#: Promises about bytes: of all others what is only noted of these is no part.
_OF_BYTES: Final = {f"{__name__}.{topic}" for topic in ("answers", "record_batches", "sasl", "versions", "wire")}

for _module in iter_modules(__path__, f"{__name__}."):  # each registers its promises
    import_module(_module.name)


@cache
def said_of(promise: Promise, *, exact: bool = False) -> list[Finding]:
    """All that is said of a promise's conversation."""
    said = everything if promise.__module__ in _OF_BYTES else findings
    with patch.object(limits, "SESSIONS", ROOM), patch.object(limits, "SHARE_PARTITIONS", ROOM):
        return said(promise()[0], exact=exact)


def sentences() -> Iterator[str]:
    """What, why and on what evidence, of each promise."""
    for promise in PROMISES:
        yield promise.__name__.replace("_", " ")
        for finding in said_of(promise):
            yield from islice(paragraph(msgspec.to_builtins(finding)), 3)
        yield ""


def write_sentences() -> None:
    """Write said.txt anew."""
    SAID.write_text("".join(f"{line}\n" for line in sentences()))


__all__ = ["PROMISES", "SAID", "Promise", "said_of", "sentences", "write_sentences"]
