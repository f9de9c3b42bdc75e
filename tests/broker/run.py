"""Runs against a broker: the scenarios, all at once, and a walk with the files it leaves.

A walk leaves NAME.pcap, NAME.walk.json.gz (every step), NAME.expected.json (what the capture should lead to),
NAME.requests.jsonl.gz (the broker's request log)."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.broker.actions import take_a_walk
from tests.broker.diary import Diary
from tests.broker.expected import expected, packets_of
from tests.broker.live import Live
from tests.broker.model import Model
from tests.broker.recording import recorded
from tests.broker.records import Foresight, foresight
from tests.broker.releases import RELEASES
from tests.broker.scenarios import OTHER_GROUP, SCENARIOS, WITH_ROOM_FOR_ONE, Scenario
from tests.broker.server import Broker
from tests.broker.setup import prepare
from tests.broker.walk import Walk
from tests.conversation import TOPIC
from tests.packets import pcap

#: So many sessions a broker holds unless told.
MANY: Final = 2000


@dataclass(frozen=True)
class Plan:
    """A release, a seed, so many steps; room for so many sessions; how often the broker restarts on the way."""

    release: str
    seed: int
    steps: int
    room: int = MANY
    restarts: int = 0
    scenarios: bool = False

    @property
    def name(self) -> str:
        return f"walk-{self.release.replace('.', '')}-{self.seed}"

    @property
    def settings(self) -> dict[str, object]:
        return (
            {}
            if self.room == MANY
            else {"group.share.max.share.sessions": self.room, "group.share.max.size": self.room}
        )


@dataclass(frozen=True)
class Done:
    """What became of a plan; `failures`: scenarios that a broker answered otherwise; `captured`: from the wire, not put
    together;
    `records`: what the in-flight machine foretold."""

    plan: Plan
    diary: Diary
    failures: list[str]
    capture: Path
    expected: dict[str, Any]
    captured: bool
    records: Foresight


def run(plan: Plan, folder: Path) -> Done:
    """Starts a broker, plays the scenarios and takes the walk. Raises NoBroker where there can be none."""
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / f"{plan.name}.pcap"
    with tempfile.TemporaryDirectory(prefix="kshark-broker-") as temporary:
        broker = Broker(RELEASES[plan.release], Path(temporary), plan.settings)
        with recorded((broker.port, broker.controller_port), capture) as captured, broker:
            failures = play(broker, plan) if plan.scenarios else []
            walk = Walk(broker, plan.seed, room=plan.room)
            take_a_walk(walk, plan.steps, plan.restarts)
            broker.stop()
        if not captured:
            capture.write_bytes(pcap(walk.talk.wire.packets))
        truth = expected(plan.name, plan.seed, walk.diary, packets_of(capture, broker.port))
        with gzip.open(folder / f"{plan.name}.requests.jsonl.gz", "wt") as log:
            log.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in broker.requests())
    steps = {
        "name": plan.name,
        "broker": plan.release,
        "seed": plan.seed,
        "profile": "random",
        "steps": walk.diary.steps,
    }
    with gzip.open(folder / f"{plan.name}.walk.json.gz", "wt") as file:
        json.dump(steps, file, separators=(",", ":"))
    (folder / f"{plan.name}.expected.json").write_text(json.dumps(truth, separators=(",", ":")))
    return Done(plan, walk.diary, failures, capture, truth, captured, foresight(capture))


def play(broker: Broker, plan: Plan) -> list[str]:
    """Plays every scenario, each with members of a group of its own, all at the same time; what was not as written."""
    scenarios: Sequence[Scenario] = WITH_ROOM_FOR_ONE if plan.room == 1 else SCENARIOS
    talk = Live(broker.port)
    admin = prepare(talk, {"t": 2}, [OTHER_GROUP, *(scenario.__name__ for scenario in scenarios)])

    def one(scenario: Scenario) -> str | None:
        diary = Diary(Model(broker.release, plan.room), known_topics=set(talk.topics.values()))
        live = Live(broker.port, diary, line=broker.release.line, group=scenario.__name__)
        live.topics[TOPIC] = talk.topics["t"]
        try:
            scenario(live)
            surprised = [
                f"{step['api']} epoch {step['epoch']}: {step['predicted']}, was {step['answer']}"
                for step in diary.surprises
            ]
            return f"{scenario.__name__}: not foretold: {'; '.join(surprised)}" if surprised else None
        except AssertionError as error:
            return f"{scenario.__name__}: {error}"
        finally:
            for connection in list(live.connections.values()):
                connection.close()

    with ThreadPoolExecutor(len(scenarios)) as pool:
        failures = [said for said in pool.map(one, scenarios) if said is not None]
    admin.close()
    return failures
