"""Faults of a batch, and how they are added to the message that carries it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import UNSET, UnsetType

from kshark.model import Kind


class Carrier(Protocol):
    """Object that carries records fields: a message, or a batch of a log segment."""

    weird: list[str] | UnsetType
    detail: str | UnsetType

    @property
    def kind(self) -> Kind: ...


class BatchFault(NamedTuple):
    """A code of the catalogue, and the position of the fault."""

    code: str
    detail: str


class DecompressionFailed(Exception):
    """The bytes are not valid output of the codec."""


class RoomExceeded(Exception):
    """The decompressed bytes are larger than the room for them."""


def attach(fault: BatchFault, message: Carrier) -> None:
    """Add the code to the message's weirds, with its detail; a code that is already there keeps its first detail."""
    if message.weird is UNSET:
        message.weird = [fault.code]
    elif fault.code in message.weird:
        return
    else:
        message.weird.append(fault.code)
    detail = f"{fault.code}: {fault.detail}"
    message.detail = f"{message.detail}; {detail}" if message.detail else detail
