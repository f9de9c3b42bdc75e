"""Arbitrary conversations: kshark says of each request what its broker knows; whatever becomes of the packets, it accuses nobody else."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kshark.model import Finding
from tests.packets import batch
from tests.thinning import Place, Whole, added, findings_in, place_of
from tests.walks.damage import DAMAGES
from tests.walks.generated import BROKERS, Act, Step, Talk
from tests.walks.known import KNOWN

acts = st.builds(
    Act,
    st.sampled_from(
        [
            *(["fetch"] * 6),
            *(["acknowledge"] * 3),
            "wait",
            "wait",
            "answer",
            "notice",
            "fin",
            "fin",
            "rst",
            "restart",
            "pause",
            "twice",
            "early",
        ]
    ),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(["+0", "+0", "+0", "+0", "+1", "+3", "-1", "-2", 0, 0, -1, -3]),
)


class Setting(NamedTuple):
    """What a conversation is made of."""

    script: list[Act]
    release: str
    room: int
    joined: int

    def talk(self) -> Talk:
        return Talk(self.script, release=self.release, room=self.room, joined=self.joined)


conversations = st.builds(
    Setting,
    st.lists(acts, min_size=1, max_size=25),
    st.sampled_from(["4.1", "4.2"]),
    st.sampled_from([2000, 2000, 1, 2]),
    st.sampled_from([3, 3, 1]),
)


def examples(name: str, count: int) -> settings:
    """What is known to fail is not made smaller every time."""
    phases = [Phase.generate] if name in KNOWN else list(Phase)
    return settings(max_examples=count, deadline=None, derandomize=True, phases=phases, suppress_health_check=list(HealthCheck))


def known(name: str) -> pytest.MarkDecorator:
    """What is known to fail has to: delete its line in tests.walks.known when it does not any more."""
    return pytest.mark.xfail(name in KNOWN, reason="known to be wrong", raises=AssertionError, strict=True)


def whole_of(talk: Talk) -> Whole:
    return Whole.of([batch(talk.wire.wire.packets)])


def wrong(talk: Talk, found: list[Finding]) -> list[str]:
    """What kshark says of an undamaged conversation that its brokers know better."""
    at: dict[Place, list[Finding]] = defaultdict(list)
    for finding in found:
        at[place_of(finding)].append(finding)
    return [f"{step.place}: {words}" for step in talk.steps for words in _wrong_at(step, at[step.place])]


def _wrong_at(step: Step, here: list[Finding]) -> list[str]:
    caused = [finding for finding in here if finding.cause is not None]
    if len(caused) != step.refused:
        return [f"{len(caused)} causes of {step.answer}"]
    words = [f"{it.code} of {step.answer}" for it in here if it.cause is None and it.verdict == "violation" and not _due(step, it)]
    if step.refused and step.causes is not None:
        (said,) = caused
        if said.cause not in step.causes and said.verdict != "unknown":
            words.append(f"{said.cause} ({said.verdict}) of {step.answer}: {said.argument}")
        if said.verdict == "unknown" and not step.causes & {"never_opened", "unknown"}:
            words.append(f"unknown because {said.unknown_because} of {step.answer}: {said.argument}")
        if said.blame == "broker" and "old_connection_closed" not in step.causes:
            words.append(f"the broker is blamed: {said.argument}")
    return words


def _due(step: Step, finding: Finding) -> bool:
    """Whether a violation that explains no refusal may be said of the request."""
    return finding.blame == "client" and {
        "NO_RECOVERY": step.after_refusal,
        "CONCURRENT_SESSION_REQUESTS": step.crossed,
        "DUPLICATE_PARTITION_ENTRY": step.request.twice,
        "REOPEN_HOT_LOOP": step.request.epoch == 0,
    }.get(finding.code, False)


def check_whole(setting: Setting) -> None:
    talk = setting.talk()
    if talk.steps:
        assert wrong(talk, findings_in(whole_of(talk).batches)) == []


@known("generated conversations")
@examples("generated conversations", 120)
@given(conversations)
def test_each_request_is_judged_as_its_broker_knows_it(setting: Setting) -> None:
    check_whole(setting)


@pytest.mark.slow
@known("generated conversations")
@examples("generated conversations", 10_000)
@given(conversations)
def test_each_of_ten_thousand_is_judged_as_its_broker_knows_it(setting: Setting) -> None:
    check_whole(setting)


def check_damaged(damage: str, setting: Setting, seed: int) -> None:
    talk = setting.talk()
    if not talk.steps:
        return
    whole = whole_of(talk)
    before = findings_in(whole.batches)
    words, left = DAMAGES[damage](whole, Random(seed))
    found = findings_in(left)
    causes = {step.place: step.causes for step in talk.steps}
    more = added(before, found, lambda it: (allowed := causes.get(place_of(it))) is None or it.cause in allowed)  # type: ignore[arg-type]
    assert [f"{words}: {it.code} {it.cause}: {it.argument}" for it in more] == []
    if damage == "missing":
        kept = {number for item in left for number in item.number.tolist()}
        gone = [at for at, number in enumerate(whole.number.tolist()) if number not in kept]
        touched = {end for at in gone for end in whole.ends[int(whole.path[at]) >> 1]}
        for broker in set(BROKERS) - touched:
            assert said_of(broker, found) == said_of(broker, before), (words, broker)


def said_of(broker: str, found: list[Finding]) -> set[tuple[str, str, str | None, Place]]:
    return {(it.code, it.verdict, it.cause, place_of(it)) for it in found if it.broker == broker}


EACH = [pytest.param(damage, marks=known(f"generated conversations, {damage}")) for damage in DAMAGES]


@pytest.mark.parametrize("damage", EACH)
def test_damage_accuses_nobody(damage: str) -> None:
    @examples(f"generated conversations, {damage}", 60)
    @given(conversations, st.integers(0, 1 << 30))
    def each(setting: Setting, seed: int) -> None:
        check_damaged(damage, setting, seed)

    each()


@pytest.mark.slow
@pytest.mark.parametrize("damage", EACH)
def test_damage_of_ten_thousand_conversations_accuses_nobody(damage: str) -> None:
    @examples(f"generated conversations, {damage}", 10_000)
    @given(conversations, st.integers(0, 1 << 30))
    def each(setting: Setting, seed: int) -> None:
        check_damaged(damage, setting, seed)

    each()
