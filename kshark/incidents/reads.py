"""The parts of a time line that the stage reads, for those that pass on only that (kshark_spark.packing)."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from kshark.incidents import scene, watchers
from kshark.model import Closed, Gap, HalfClosed, Message, Opened, Weird

#: APIs whose whole bodies the stage reads. It also reads the whole bodies of refused exchanges.
APIS: Final = scene.APIS | watchers.APIS
#: Codes of the weirds that it reads.
WEIRDS: Final = scene.WEIRDS | watchers.WEIRDS
_OTHERS: Final = (Opened, HalfClosed, Closed, Gap)


def numbers(body: Any) -> dict[str, int] | None:
    """Return the numbers at the top level of a body, which the stage reads of every API; None without a body."""
    names = getattr(body, "__struct_fields__", None)
    if names is None:
        return None
    return {name: value for name in names if type(value := getattr(body, name)) is int}


def is_read(event: object) -> bool:
    """True if the stage reads this event beside exchanges and their requests."""
    if isinstance(event, Message):
        return event.correlation_id is UNSET and event.weird is not UNSET  # a frame without a readable header
    return isinstance(event, _OTHERS) or (isinstance(event, Weird) and event.code in WEIRDS)
