"""Captures and conversations as a running capture, and what a scrape of it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from kshark.capture import open_captures
from kshark.live import Status
from kshark.live.metrics.counts import LiveCounts
from kshark.live.metrics.exposition import OPEN_METRICS, TEXT, Format, exposition
from kshark.live.metrics.families import Series, families
from kshark.live.metrics.limited import Limiter
from kshark.model import Finding, PacketBatch, Tick, Weird
from kshark.pipeline import JUDGED, Engine
from kshark.run import Run
from tests.conversation import Conversation, registry
from tests.packets import batch

NEEDS_PARSER: Final = "it needs prometheus_client's parser (pip install prometheus-client)"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Watched:
    """A capture that is running: `take` its packets, `scrape` what was counted by then."""

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.counts = LiveCounts(registry(), labels)
        self.run = Run(registry(), keeps=False, on_change=self.counts.changed)
        self.found: list[Finding] = []
        self.status = Status(("eth0",), 0, 0)
        self.limiter = Limiter(families(self.labels))
        self._engine = Engine(replace(JUDGED, records="headers"), registry())
        self._taken = 0

    def take(self, items: Iterable[PacketBatch | Weird | Tick]) -> Watched:
        for item in items:
            if isinstance(item, PacketBatch):
                self.status.packets += len(item.number)
                self.status.now_ns = max(self.status.now_ns, int(item.time_ns.max()))
                self.counts.bytes += int(item.wire_length.sum())
            for page in self._engine.feed(item):
                findings = self.run.page(page)
                self.found += findings
                self.counts.page(page, findings, self.run)
        return self

    def file(self, path: Path) -> Watched:
        return self.take(open_captures([path]))

    def talk(self, talk: Conversation) -> Watched:
        """Take what was said since the last call."""
        rows = talk.packets()[self._taken :]
        self._taken += len(rows)
        packets = batch([packet for _, packet in rows])
        packets.number = np.array([number for number, _ in rows], np.int64)
        return self.take([packets])

    def end(self) -> Watched:
        for page in self._engine.close():
            findings = self.run.page(page)
            self.found += findings
            self.counts.page(page, findings, self.run)
        last = self.run.close()
        self.found += last
        self.counts.found(last)
        return self

    def series(self) -> Series:
        return self.counts.series(self.status, self.run)

    def text(self, form: Format = TEXT) -> str:
        shown = self.limiter.limit(self.series())
        return exposition(families(self.labels), shown, form).decode()

    def scrape(self) -> Samples:
        return samples(self.text())


_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_UNESCAPED: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def samples(text: str) -> Samples:
    """Read an exposition as strictly as it can be written: every line counts, and no sample comes twice."""
    assert text.endswith("\n")
    found: Samples = {}
    types: dict[str, str] = {}
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        name, inner, value = match.groups()
        pairs = _LABEL.findall(inner or "")
        assert "".join(f'{key}="{text}",' for key, text in pairs).rstrip(",") == (inner or "").rstrip(","), line
        labels = tuple((key, re.sub(r'\\["\\n]', lambda part: _UNESCAPED[part[0]], text)) for key, text in pairs)
        assert (name, labels) not in found, line
        assert any(name.startswith(known) for known in types), line
        found[name, labels] = float(value)
    return found


def parsed(text: str, form: Format) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read it with Prometheus' own parser for Python."""
    pytest.importorskip("prometheus_client", reason=NEEDS_PARSER)
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
    from prometheus_client.parser import text_string_to_metric_families as plain

    read: Any = open_metrics if form is OPEN_METRICS else plain
    return {
        (sample.name, tuple(sample.labels.items())): float(sample.value)
        for family in read(text)
        for sample in family.samples
    }


def total(found: Samples, name: str, **labels: str) -> float:
    """The sum of a family's samples with these labels."""
    return sum(
        value for (sample, pairs), value in found.items() if sample == name and labels.items() <= dict(pairs).items()
    )
