"""A promise: the smallest conversation that brings about what a row says may come, and all that kshark says of it,
written by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from tests.conversation import Conversation, Told

Said = tuple[Conversation, list[Told]]
Promise = Callable[[], Said]
PROMISES: Final[list[Promise]] = []
#: Sessions that are held at the same time while promises are kept.
ROOM: Final = 3


def promise(made: Promise) -> Promise:
    """Made once, and looked at by many tests."""
    kept = cache(made)
    PROMISES.append(kept)
    return kept
