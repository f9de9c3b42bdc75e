"""The flight recorder: each saved file alone gives its finding, and what is kept is bounded."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import kshark as face
from kshark.capture.batches import chosen
from kshark.errors import UsageError
from kshark.live.files import Interfaces
from kshark.live.recorder import Recorder, RecorderOptions, Saving, recorder_options
from kshark.live.recorder.due import DueRecordings
from kshark.live.recorder.private_folder import PrivateFolder
from kshark.live.recorder.segments import Segments
from kshark.model import Finding, PacketBatch
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from kshark.run import Run
from tests.capture.files import read
from tests.evidence.reading import comments, result_of
from tests.live.batches import BEGIN, SECOND, live_batches, packets, status
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES

ADVERSARIAL = sorted([*CAPTURES.glob("adv-*.pcap"), *CAPTURES.glob("aimed*.pcap"), CAPTURES / "java-limit.pcap"])


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TMPDIR, in which nothing is left."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    until = time.monotonic() + PATIENCE_S
    while [*folder.iterdir()] and time.monotonic() < until:
        time.sleep(0.01)
    assert not [*folder.iterdir()]


class Live:
    """A running capture with a recorder."""

    def __init__(self, options: RecorderOptions, registry: Registry | None = None) -> None:
        self.notes: list[str] = []
        registry = registry or Registry()
        self.recorder = Recorder(
            Saving(options, JUDGED, registry, "eth0"), Interfaces(["eth0"], 262_144), say=self.notes.append
        )
        self.engine = Engine(JUDGED, registry)
        self.run = Run(registry)
        self.findings: list[Finding] = []

    def play(self, path: Path, *, most: int = 50, until: int | None = None) -> None:
        """Capture and judge the packets of a file, and end."""
        self.recorder.start()
        for batch in live_batches(path, most):
            self.feed(batch)
        self.end()

    def feed(self, batch: PacketBatch) -> None:
        self.recorder.packets(batch)
        for page in self.engine.feed(batch):
            self.add(self.run.page(page))

    def add(self, findings: list[Finding]) -> None:
        self.findings += findings
        self.recorder.page([], findings)

    def end(self) -> None:
        for page in self.engine.close():
            self.add(self.run.page(page))
        last = self.run.close()
        self.findings += last
        self.recorder.close(last)


def saved(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def data_of(case: Path) -> dict[str, dict[str, object]]:
    """The lines of finding.json, by what they are."""
    finding, *others = map(json.loads, (case / "finding.json").read_text().splitlines())
    return {"finding": finding, **{key: value for line in others for key, value in line.items()}}


def quick(folder: Path, **changes: object) -> RecorderOptions:
    """Options with a recording of each violation."""
    return RecorderOptions(folder)._replace(**{"held_ns": 3600 * SECOND, **changes})


@pytest.mark.parametrize("path", ADVERSARIAL, ids=lambda path: path.name)
def test_each_recording_gives_its_finding(path: Path, tmp_path: Path) -> None:
    live = Live(quick(tmp_path / "saved"))
    live.play(path)
    violations = {result_of(it): it for it in live.findings if it.verdict == "violation"}
    cases = saved(tmp_path / "saved") if violations else []
    for case in cases:
        data = data_of(case)
        assert data["evidence"]["reproduces"], case.name
        again = {result_of(it) for it in face.check(case / f"{case.name}.pcapng")}
        (same,) = [it for it in violations if it in again and violations[it].packet == data["finding"]["packet"]][:1]
        assert violations[same].code == data["finding"]["code"]
    causes = {(it.code, it.cause, it.blame, it.group_id, it.member_id or it.client_id or it.client) for it in violations.values()}
    assert len(cases) == len(causes)
    assert not any("bug" in note or "cannot" in note for note in live.notes)
