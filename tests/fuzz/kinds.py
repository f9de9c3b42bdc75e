"""The kinds of input, in the order of the way of the data."""

from __future__ import annotations

from typing import Any, Final

from tests.fuzz.bodies import Bodies
from tests.fuzz.captures import Captures
from tests.fuzz.commands import Commands
from tests.fuzz.filters import Filters
from tests.fuzz.frames import Connections
from tests.fuzz.kind import Kind
from tests.fuzz.losses import Losses
from tests.fuzz.records import Records
from tests.fuzz.unreadable import Unreadable

KINDS: Final[tuple[Kind[Any], ...]] = (
    Captures(),
    Losses(),
    Unreadable(),
    Connections(),
    Bodies(),
    Records(),
    Filters(),
    Commands(),
)
