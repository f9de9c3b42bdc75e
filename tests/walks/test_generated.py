"""Arbitrary conversations: kshark says of each request what its broker knows; whatever becomes of the packets, it
accuses nobody else."""

from __future__ import annotations

import re
from collections import defaultdict
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kshark.model import Finding, PacketBatch
from tests.examples import as_many
from tests.packets import batch
from tests.thinning import Place, Whole, added, findings_in, place_of
from tests.walks.damage import DAMAGES
from tests.walks.generated import Act, Step, Talk

#: Words and epochs of conversations that go on for long, and of those in which everything breaks all the time.
CALM: tuple[list[str], list[int | str]] = (
    ["pause", *["fetch"] * 5, *["acknowledge"] * 3, *["wait", "answer"] * 3, "notice", "fin", "rst"],
    [*["+0"] * 9, "+1", "-1", 0],
)
WILD: tuple[list[str], list[int | str]] = (
    [
        "pause",
        *["fetch"] * 6,
        *["acknowledge"] * 3,
        "wait",
        "wait",
        "answer",
        "notice",
        "fin",
        "fin",
        "rst",
        "restart",
        "twice",
        "early",
    ],
    [*["+0"] * 4, "+1", "+3", "-1", "-2", 0, 0, -1, -3],
)
#: The slow forms make an example small before they show it; to explain what it depends on would take still longer.
QUICK = [Phase.explicit, Phase.generate]
SLOW = [*QUICK, Phase.shrink]


class Setting(NamedTuple):
    """What a conversation is made of."""

    script: list[Act]
    release: str
    room: int
    joined: int
    lenient: bool

    def talk(self) -> Talk:
        return Talk(self.script, release=self.release, room=self.room, joined=self.joined, lenient=self.lenient)


@st.composite
def conversations(draw: st.DrawFn) -> Setting:
    """Often of one member with one broker: that is where most goes wrong."""
    members, brokers = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2]))
    words, epochs = draw(st.sampled_from([CALM, WILD]))
    places = st.integers(0, members - 1), st.integers(0, brokers - 1), st.integers(0, 1)
    acts = st.tuples(st.sampled_from(words), *places, st.sampled_from(epochs))
    script = [Act(*act) for act in draw(st.lists(acts, min_size=8, max_size=20))]
    release, room, joined = (
        draw(st.sampled_from(["4.1", "4.2"])),
        draw(st.sampled_from([2000, 2000, 1, 2])),
        draw(st.sampled_from([3, 3, 1])),
    )
    return Setting(script, release, room, joined, lenient=draw(st.booleans()))


def examples(count: int) -> settings:
    phases = QUICK if count < 1000 else SLOW
    return settings(max_examples=count, derandomize=True, phases=phases, suppress_health_check=list(HealthCheck))


def whole_of(talk: Talk) -> Whole:
    return Whole.of([batch(talk.wire.wire.packets)])


def wrong(talk: Talk, found: list[Finding]) -> list[str]:
    """What kshark says of an undamaged conversation that its brokers know better."""
    at: dict[Place, list[Finding]] = defaultdict(list)
    for finding in found:
        at[place_of(finding)].append(finding)
    return [f"{step.place}: {words}" for step in talk.steps for words in _wrong_at(step, at[step.place])]


def _wrong_at(step: Step, here: list[Finding]) -> list[str]:
    caused = [it for it in here if it.cause is not None and it.code != "REQUEST_UNANSWERED"]
    if len(caused) != step.refused:
        return [f"{len(caused)} causes of {step.answer}"]
    words = [
        f"{it.code} of {step.answer}"
        for it in here
        if it.cause is None and it.verdict == "violation" and not _due(step, it)
    ]
    if step.refused and step.causes is not None:
        (said,) = caused
        if said.cause not in step.causes and said.verdict != "unknown":
            words.append(f"{said.cause} ({said.verdict}) of {step.answer}: {said.argument}")
        # TCP may have delivered a request late if its connection shows no later one.
        is_late = said.unknown_because == "in_flight"
        if said.verdict == "unknown" and not is_late and not step.causes & {"never_opened", "unknown"}:
            words.append(f"unknown because {said.unknown_because} of {step.answer}: {said.argument}")
        if said.blame == "broker" and "old_connection_closed" not in step.causes:
            words.append(f"the broker is blamed: {said.argument}")
    return words


def _due(step: Step, finding: Finding) -> bool:
    """Whether a violation that explains no refusal may be said of the request."""
    return finding.blame == "client" and {
        "NO_RECOVERY": step.after_refusal,
        "CONCURRENT_SESSION_REQUESTS": step.crossed,
        "FETCH_OVERTAKEN": step.crossed,
        "DUPLICATE_PARTITION_ENTRY": step.request.twice,
        "REOPEN_HOT_LOOP": step.request.epoch == 0,
    }.get(finding.code, False)


def check_whole(setting: Setting) -> None:
    talk = setting.talk()
    if not talk.steps:
        return
    found = findings_in(whole_of(talk).batches)
    assert wrong(talk, found) == []
    assert found == findings_in(whole_of(talk).batches, exact=True)


@examples(as_many(50))
@given(conversations())
def test_each_request_is_judged_as_its_broker_knows_it(setting: Setting) -> None:
    check_whole(setting)


@pytest.mark.slow
@examples(10_000)
@given(conversations())
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
    more = added(before, found)
    assert [f"{words}: {it.code} {it.cause}: {it.argument}" for it in more] == []
    if damage == "missing":
        assert untouched(talk, whole, left, found) == untouched(talk, whole, left, before), words


def untouched(
    talk: Talk, whole: Whole, left: list[PacketBatch], found: list[Finding]
) -> list[tuple[str, str, str | None, Place]]:
    """What is said of sessions of whose member and broker no packet is missing."""
    kept = {number for item in left for number in item.number.tolist()}
    gone = [at for at, number in enumerate(whole.number.tolist()) if number not in kept]
    ends = {end for at in gone for end in whole.ends[int(whole.path[at]) >> 1]}
    members = {name.ljust(22, "A") for end, (_, name) in talk.owners.items() if end in ends}
    return sorted(
        (it.code, it.verdict, it.cause, place_of(it))
        for it in found
        if it.broker not in ends and it.member_id not in members
    )


def script(words: str) -> Setting:
    """Acts of member 0 with broker 0 and Kafka 4.1; `@1`: on line 1, `+1`: with an epoch too many."""
    acts = (re.fullmatch(r"(\w+)(@1)?(\+1)?", word) for word in words.split())
    return Setting(
        [Act(act[1], 0, 0, int(bool(act[2])), act[3] or "+0") for act in acts if act], "4.1", 2000, 3, lenient=False
    )


@pytest.mark.parametrize(
    ("damage", "words", "seed"),
    [
        # the next epochs on another connection show that requests are missing, before the refusal is answered
        ("missing", "pause fetch@1 fetch fetch fetch wait@1 fin@1 rst fetch fetch@1 notice", 10),
        # an acknowledgement of bytes proves no order of connections where packets are out of order
        ("out_of_order", "pause pause acknowledge fetch@1 wait fetch fetch@1 answer", 0),
        # the first bytes of both sides are cut off: a connection that was taken for another protocol
        ("cut", f"pause pause pause fetch@1 {'fetch ' * 7} fetch@1 fetch+1", 2308830),
    ],
)
def test_damage_that_accused_somebody_once(damage: str, words: str, seed: int) -> None:
    check_damaged(damage, script(words), seed)


def check_many(damage: str, count: int) -> None:
    @examples(count)
    @given(conversations(), st.integers(0, 1 << 30))
    def each(setting: Setting, seed: int) -> None:
        check_damaged(damage, setting, seed)

    each()


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_accuses_nobody(damage: str) -> None:
    check_many(damage, as_many(25))


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_thousands_of_conversations_accuses_nobody(damage: str) -> None:
    check_many(damage, 2_000)
