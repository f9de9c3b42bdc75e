"""One walk from start to end, and the files it leaves: NAME.pcap, NAME.walk.json.gz, NAME.expected.json, NAME.requests.jsonl.gz."""

from __future__ import annotations

import gzip
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.broker.actions import take_a_walk
from tests.broker.diary import Diary
from tests.broker.expected import expected, packets_of
from tests.broker.recording import recorded
from tests.broker.releases import RELEASES
from tests.broker.server import Broker
from tests.broker.walk import Walk
from tests.packets import pcap


@dataclass(frozen=True)
class Plan:
    """What a walk is: release, seed, steps; `room` for so many sessions; how often the broker restarts."""

    release: str
    seed: int
    steps: int
    members: int = 5
    room: int = 2000
    restarts: int = 0

    @property
    def name(self) -> str:
        return f"walk-{self.release.replace('.', '')}-{self.seed}"


@dataclass(frozen=True)
class Walked:
    """What became of it."""

    plan: Plan
    diary: Diary
    capture: Path
    expected: dict[str, Any]
    captured: bool


def walk(plan: Plan, folder: Path) -> Walked:
    """Starts a broker, takes the walk and writes its files. Raises NoBroker where there can be none."""
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / f"{plan.name}.pcap"
    settings = {} if plan.room >= 2000 else {"group.share.max.share.sessions": plan.room, "group.share.max.size": min(plan.room, 200)}
    with tempfile.TemporaryDirectory(prefix="kshark-broker-") as temporary:
        broker = Broker(RELEASES[plan.release], Path(temporary), settings)
        with recorded((broker.port, broker.controller_port), capture) as captured, broker:
            taken = Walk(broker, plan.seed, members=plan.members, room=plan.room)
            take_a_walk(taken, plan.steps, plan.restarts)
            broker.stop()
        if not captured:
            capture.write_bytes(pcap(taken.talk.wire.packets))
        truth = expected(plan.name, plan.seed, taken.diary, packets_of(capture, broker.port))
        with gzip.open(folder / f"{plan.name}.requests.jsonl.gz", "wt") as log:
            log.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in broker.requests())
    steps = {"name": plan.name, "broker": plan.release, "seed": plan.seed, "profile": "random", "steps": taken.diary.steps}
    with gzip.open(folder / f"{plan.name}.walk.json.gz", "wt") as file:
        json.dump(steps, file, separators=(",", ":"))
    (folder / f"{plan.name}.expected.json").write_text(json.dumps(truth, separators=(",", ":")))
    return Walked(plan, taken.diary, capture, truth, captured)
