"""The scenarios on paper: the model foretells each answer that was written by hand, and kshark explains each refusal as
the model does."""

from __future__ import annotations

import pytest

from tests.broker.diary import REFUSED, Diary
from tests.broker.model import Model
from tests.broker.releases import RELEASES
from tests.broker.scenarios import SCENARIOS, WITH_ROOM_FOR_ONE, Scenario
from tests.broker.synthetic import Synthetic
from tests.conversation import TOPIC, findings

EVERY = [(scenario, release, 2000) for scenario in SCENARIOS for release in RELEASES] + [
    (scenario, release, 1) for scenario in WITH_ROOM_FOR_ONE for release in RELEASES
]


def played(scenario: Scenario, release: str, room: int) -> tuple[Synthetic, Diary]:
    """The scenario on paper, and what the model made of it."""
    diary = Diary(Model(RELEASES[release], room), known_topics={TOPIC})
    talk = Synthetic(RELEASES[release].line, diary)
    diary.clock = lambda: talk.wire.time_ns
    scenario(talk)
    return talk, diary


@pytest.mark.parametrize(
    ("scenario", "release", "room"), EVERY, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_the_model_foretells_what_is_written(scenario: Scenario, release: str, room: int) -> None:
    _, diary = played(scenario, release, room)
    share = [step for step in diary.steps if step.get("api") in (78, 79) and step["answer"] is not None]
    assert share
    assert [
        (step["n"], step["predicted"], step["answer"]) for step in share if step["answer"] not in step["predicted"]
    ] == []


@pytest.mark.sweep(quick=15)
@pytest.mark.parametrize(
    ("scenario", "release", "room"), EVERY, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_each_refusal_is_explained_as_the_model_does(scenario: Scenario, release: str, room: int) -> None:
    talk, diary = played(scenario, release, room)
    said = {(f.client, f.witness[-1].correlation_id): f for f in findings(talk) if f.cause is not None and f.witness}
    wrong = []
    for step in diary.steps:
        if step.get("answer") in REFUSED:
            finding = said.get((f"10.0.0.1:{step['port']}", step["cid"]))
            if finding is None or (finding.verdict != "unknown" and finding.cause not in diary.causes[step["n"]].every):
                wrong.append(
                    (
                        step["n"],
                        step["action"],
                        sorted(diary.causes[step["n"]].every),
                        finding and (finding.code, finding.cause),
                    )
                )
    assert wrong == []
