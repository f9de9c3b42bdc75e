"""What can be wrong with a batch, and how the message that carries it is told."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from kshark.model import Message


class BatchFault(NamedTuple):
    """A code of the catalogue, and where."""

    code: str
    detail: str


class DecompressionFailed(Exception):
    """The bytes are not what the codec writes."""


class RoomExceeded(Exception):
    """What comes out is larger than the room for it."""


def attach(fault: BatchFault, message: Message) -> None:
    """Adds the code to the message's weirds, with its detail; a code that is there already keeps its first detail."""
    if message.weird is UNSET:
        message.weird = [fault.code]
    elif fault.code in message.weird:
        return
    else:
        message.weird.append(fault.code)
    detail = f"{fault.code}: {fault.detail}"
    message.detail = f"{message.detail}; {detail}" if message.detail else detail
