"""Captures in which every packet stands twice: both ends of the link captured, a clock that differs, a port that is
mirrored twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kshark.analysis import Analyzer
from kshark.capture import open_captures
from kshark.model import Finding, Gap, Message, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from tests.packets import ETHERNET

_BATCH_PACKETS = 2_000
_COLUMNS = ("number", "time_ns", "link_type", "offset", "length", "wire_length")
#: Where a packet stands in the file; all else of a message or a finding is the same without the copies.
_NUMBERS = {"packet", "packets", "request_packet", "response_packet", "knows", "file", "frame"}


def packets_of(capture: Path) -> PacketBatch:
    """All packets as one batch."""
    return joined([item for item in open_captures([capture]) if isinstance(item, PacketBatch)])


def joined(batches: list[PacketBatch]) -> PacketBatch:
    """Batches one behind the other, in one buffer."""
    before = np.cumsum([0, *(len(batch.buffer) for batch in batches)])
    columns = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _COLUMNS}
    columns["offset"] += np.repeat(before[:-1], [len(batch.number) for batch in batches])
    return PacketBatch(b"".join(batch.buffer for batch in batches), **columns)


def chosen(whole: PacketBatch, rows: Any) -> PacketBatch:
    """Some packets, in any order."""
    return replace(whole, **{name: getattr(whole, name)[rows] for name in _COLUMNS})


def _in_order(both: PacketBatch, keys: Any) -> PacketBatch:
    packets = chosen(both, np.argsort(keys, kind="stable"))
    return replace(packets, number=np.arange(1, len(packets.number) + 1))


def merged(whole: PacketBatch, later_ns: int, copy: PacketBatch | None = None) -> PacketBatch:
    """The packets and a copy of them by a clock that is ahead, in the order of their times, as mergecap does."""
    copy = copy or whole
    copy = replace(copy, time_ns=copy.time_ns + later_ns)
    return _in_order(
        joined([whole, copy]), np.concatenate([np.maximum.accumulate(each.time_ns) for each in (whole, copy)])
    )


def doubled(whole: PacketBatch, later: int) -> PacketBatch:
    """Every packet once more, that many packets later (0: at once), with the time of the one that it comes behind."""
    place = np.arange(len(whole.number))
    copy = replace(whole, time_ns=whole.time_ns[np.minimum(place + later, len(place) - 1)])
    return _in_order(joined([whole, copy]), np.concatenate([place * 2, (place + later) * 2 + 1]))


def tagged(whole: PacketBatch) -> PacketBatch:
    """Ethernet frames as another place on the way sees them: with a VLAN tag; other link layers as they are."""
    if (whole.link_type != ETHERNET).any():
        return whole
    ends = zip(whole.offset.tolist(), whole.length.tolist(), strict=True)
    frames = [whole.buffer[at : at + 12] + b"\x81\x00\0\7" + whole.buffer[at + 12 : at + length] for at, length in ends]
    length = whole.length + 4
    return replace(
        whole,
        buffer=b"".join(frames),
        offset=np.cumsum(length) - length,
        length=length,
        wire_length=whole.wire_length + 4,
    )


def cut(whole: PacketBatch, size: int = _BATCH_PACKETS) -> Iterator[PacketBatch]:
    for at in range(0, len(whole.number), size):
        yield chosen(whole, slice(at, at + size))


@dataclass
class Seen:
    """What comes of a capture: messages and findings as text without packet numbers, gaps, and weirds by code."""

    messages: list[str]
    findings: list[str]
    gaps: list[tuple[int, int, int]]
    weirds: dict[str, list[Weird]]


def seen(batches: Iterable[PacketBatch | Weird]) -> Seen:
    engine, analyzer = Engine(Options(records=False)), Analyzer()
    out = Seen([], [], [], {})
    found: list[Finding] = []
    for page in engine.pages(batches):
        found += analyzer.page(page)
        for event in page:
            if isinstance(event, Message):
                out.messages.append(_without_numbers(event))
            elif isinstance(event, Gap):
                out.gaps.append((event.flow.id, event.side, event.size))
            elif isinstance(event, Weird):
                out.weirds.setdefault(event.code, []).append(event)
    found += analyzer.close()
    out.messages.sort()
    out.findings = sorted(map(_without_numbers, found))
    return out


def _without_numbers(what: Message | Finding) -> str:
    fields = {name: value for name, value in msgspec.to_builtins(what).items() if name not in _NUMBERS}
    if isinstance(what, Finding):
        fields["witness"] = [
            {key: value for key, value in each.items() if key not in _NUMBERS} for each in fields["witness"]
        ]
        if "(at_close)" in what.argument or "(up to the end)" in what.argument:
            del fields["time_ns"]  # what the capture's end shows comes with its last packet, which is the copy's
    for text in {"argument", "detail"} & fields.keys():
        fields[text] = re.sub(r"packets? \d+(?:(?:, | and | to )\d+)*", "packet", fields[text])
    return msgspec.json.encode(fields).decode()
