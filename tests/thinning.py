"""Captures that miss something: the sniffer's own losses, done on purpose to real captures. What is left keeps its packet numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from kshark.analysis import Analyzer
from kshark.capture import open_captures
from kshark.link import Link
from kshark.model import Event, Finding, PacketBatch
from kshark.pipeline import Engine, Options

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Whole:
    """A capture in memory, with the path of each packet (-1: no TCP)."""

    batches: list[PacketBatch]
    number: NDArray[np.int64]
    path: NDArray[np.int64]

    @classmethod
    def load(cls, capture: Path) -> Whole:
        batches = [item for item in open_captures([capture]) if isinstance(item, PacketBatch)]
        number = np.concatenate([item.number for item in batches])
        path = np.full(len(number), -1, np.int64)
        link = Link()
        for item in batches:
            segments, _ = link.feed(item)
            if segments is not None:
                path[np.searchsorted(number, segments.packet)] = segments.path
        return cls(batches, number, path)

    def thinned(self, keep: Mask) -> Iterator[PacketBatch]:
        at = 0
        for item in self.batches:
            mine = keep[at : at + len(item.number)]
            at += len(item.number)
            if mine.any():
                yield replace(
                    item,
                    number=item.number[mine],
                    time_ns=item.time_ns[mine],
                    link_type=item.link_type[mine],
                    offset=item.offset[mine],
                    length=item.length[mine],
                    wire_length=item.wire_length[mine],
                )

    def everything(self) -> Mask:
        return np.ones(len(self.number), bool)


def removals(whole: Whole, random: Random, singles: int, others: int) -> Iterator[tuple[str, Mask]]:
    """Ways in which a sniffer may miss something: one packet, a run, a direction, a connection, the beginning, the end."""
    count = len(whole.number)
    for _ in range(singles):
        keep = whole.everything()
        at = random.randrange(count)
        keep[at] = False
        yield f"without packet {whole.number[at]}", keep
    for _ in range(others):
        keep = whole.everything()
        at, length = random.randrange(count), random.choice((2, 3, 5, 10, 30, 100))
        keep[at : at + length] = False
        yield f"without packets {at + 1} to {at + length}", keep
        keep = whole.everything()
        keep[:at] = False
        yield f"from packet {at + 1} on", keep
        keep = whole.everything()
        keep[at:] = False
        yield f"up to packet {at}", keep
    paths = sorted(set(whole.path.tolist()) - {-1})
    for path in random.sample(paths, min(others, len(paths))):
        yield f"without direction {path}", whole.path != path
    pairs = sorted({path >> 1 for path in paths})
    for pair in random.sample(pairs, min(others, len(pairs))):
        yield f"without connection {pair}", (whole.path >> 1) != pair


def every_removal(whole: Whole) -> Iterator[tuple[str, Mask]]:
    """Each single packet, each direction and each connection; runs, beginnings and ends at every fifth packet."""
    count = len(whole.number)
    for at in range(count):
        keep = whole.everything()
        keep[at] = False
        yield f"without packet {whole.number[at]}", keep
    for at in range(0, count, 5):
        for length in (2, 7, 40):
            keep = whole.everything()
            keep[at : at + length] = False
            yield f"without packets {at + 1} to {at + length}", keep
        keep = whole.everything()
        keep[:at] = False
        yield f"from packet {at + 1} on", keep
        yield f"up to packet {at}", ~keep
    for path in sorted(set(whole.path.tolist()) - {-1}):
        yield f"without direction {path}", whole.path != path
    for pair in sorted({path >> 1 for path in whole.path.tolist()} - {-1}):
        yield f"without connection {pair}", (whole.path >> 1) != pair


def events_of(batches: Iterable[PacketBatch]) -> Iterator[Event]:
    return chain.from_iterable(Engine(Options(records=False)).pages(batches))


def findings_of(whole: Whole, keep: Mask) -> list[Finding]:
    analyzer = Analyzer()
    found = [finding for event in events_of(whole.thinned(keep)) for finding in analyzer.feed(event)]
    return found + list(analyzer.close())


def exchange_of(finding: Finding) -> tuple[str, str, int | None]:
    """The exchange a finding stands at, by what does not change when packets are missing."""
    last = finding.witness[-1] if finding.witness else None
    return finding.client, finding.broker, None if last is None else last.correlation_id


def violations(found: list[Finding]) -> dict[tuple[str, str, int | None], set[str]]:
    out: dict[tuple[str, str, int | None], set[str]] = {}
    for finding in found:
        if finding.verdict == "violation":
            out.setdefault(exchange_of(finding), set()).add(finding.code)
    return out
