"""Share groups at work: members join, fetch, accept what they are handed, and leave. Half of the groups do nothing
else; in each of the others something is not as it should be, once or now and then."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kshark.model import Event
from tests.analysis.talks import handed, left
from tests.conversation import TOPIC, Conversation, Member, events

#: What is not as it should be.
SLIPS = (
    "accepts twice", "is handed the same", "is handed it "
        "again", "releases", "rejects", "is refused", "accepts another's", "jumps",
    "comes late", "has another epoch", "asks for more", "goes "
        "on", "is handed it the wrong way", "accepts too early", "is locked otherwise",
    "accepts nothing", "is handed much", "leaves a gap", "opens "
        "again", "closes without a word", "lists nothing", "is not answered",
    "joins again", "skips some",
)  # fmt: skip
PARTITIONS = [0, 1]


@dataclass
class Group:
    """`behind`: the next offset of each partition; `slip` None: all is well."""

    dice: random.Random
    talk: Conversation
    slip: str | None
    behind: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    held: list[tuple[int, int, int]] = field(default_factory=list)

    def slips(self, what: str) -> bool:
        return self.slip == what and self.dice.random() < 0.3

    def next(self, partition: int) -> tuple[int, int, int]:
        first = self.behind[partition]
        count = 1200 if self.slips("is handed much") else self.dice.randint(1, 20)
        self.behind[partition] += count + 5 * self.slips("leaves a gap")
        return partition, first, first + count - 1

    def handed_out(self) -> list[tuple[int, ...]]:
        """The ranges of an answer."""
        if self.dice.random() < 0.3:
            return []
        partition = self.dice.choice(PARTITIONS)
        if self.slip in ("is handed the same", "is handed it again") and self.held and self.dice.random() < 0.3:
            again = self.dice.choice(self.held)
            return [again if self.slip == "is handed the same" else (*again, 2)]
        ranges: list[tuple[int, ...]] = [self.next(partition) for _ in range(self.dice.randint(1, 2))]
        return ranges[::-1] if self.slips("is handed it the wrong way") else ranges


def conversation(seed: int) -> list[Event]:
    dice = random.Random(seed)
    talk = Conversation(release=dice.choice((None, "4.0", "4.1", "4.2", "4.2")))
    lives: list[Iterator[None]] = []
    for number in range(dice.randint(2, 4)):
        group = Group(dice, talk, dice.choice(SLIPS) if dice.random() < 0.5 else None)
        for name in range(dice.randint(1, 3)):
            member = talk.member(f"m{name}", f"g{number}", joined=False)
            lives.append(life(group, member))
    while lives:
        one = dice.choice(lives)
        if next(one, "over") == "over":
            lives.remove(one)
    lost = [n for n, _ in talk.packets() if dice.random() < 0.01] if dice.random() < 0.2 else []
    return events(talk.without_packets(lost))


def assigned(*partitions: int) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_id": TOPIC, "partitions": [*partitions]}]}


def life(group: Group, member: Member) -> Iterator[None]:
    dice, talk = group.dice, group.talk
    member.heartbeat(0, ["t"]).given(1, assignment=assigned(*PARTITIONS), interval_ms=30_000)
    yield
    mine: list[tuple[int, int, int]] = []
    epoch = 0
    for _ in range(dice.randint(3, 12)):
        if dice.random() < 0.3:
            beat(group, member)
        if group.slips("goes on"):
            left(member)
        acknowledged = acknowledging(group, mine) if epoch else None
        epoch = asks(group, member, epoch, acknowledged, mine)
        talk.pause(dice.choice((0.01, 0.1, 0.5)))
        yield
    if group.slip == "closes without a word":
        member.connection.close()
        return
    for one in mine if group.slip != "accepts nothing" else ():
        member.share_acknowledge(epoch, [(one[1], one[2], 1)], partition=one[0]).answered()
        epoch += 1
    if dice.random() < 0.8:
        member.share_acknowledge(-1).answered()
        if dice.random() < 0.8:
            left(member)
            member.connection.close()


def beat(group: Group, member: Member) -> None:
    if group.slips("comes late"):
        group.talk.pause(61)
    if group.slips("joins again"):
        member.heartbeat(0, ["t"]).given(1, assignment=assigned(*PARTITIONS), interval_ms=30_000)
    elif group.slips("has another epoch"):
        member.heartbeat(7).answered(110, member_id="", member_epoch=0, heartbeat_interval_ms=0, assignment=None)
    else:
        member.heartbeat(1).given(1, interval_ms=30_000)


def acknowledging(group: Group, mine: list[tuple[int, int, int]]) -> tuple[int, int, int, int] | None:
    """Partition, first and last offset, and type of what is acknowledged next."""
    dice = group.dice
    if group.slips("accepts too early"):
        partition = dice.choice(PARTITIONS)
        return partition, group.behind[partition] + 30, group.behind[partition] + 31, 1
    if group.slips("accepts another's") and group.held:
        return (*dice.choice(group.held), 1)
    if not mine or group.slip == "accepts nothing" or dice.random() < 0.3:
        return None
    kind = 2 if group.slips("releases") else 3 if group.slips("rejects") else 1
    if group.slips("accepts twice"):
        return (*mine[0], kind)
    partition, first, last = mine.pop(0)
    if first < last and dice.random() < 0.3:  # the first half now
        mine.insert(0, (partition, (first + last) // 2 + 1, last))
        last = (first + last) // 2
    return (
        partition,
        first + group.slips("skips some"),
        max(last, first + 1) if group.slips("skips some") else last,
        kind,
    )


def asks(
    group: Group, member: Member, epoch: int, told: tuple[int, int, int, int] | None, mine: list[tuple[int, int, int]]
) -> int:
    """The next request of the session; gives the epoch behind it."""
    dice = group.dice
    if group.slips("jumps"):
        member.share_fetch(epoch + 3).answered(123)
        return 0
    epoch = 0 if group.slips("opens again") and told is None else epoch
    acks = [] if told is None else [told[1:]]
    errors = {told[0]: 121} if told is not None and group.slips("is refused") else None
    if told is not None and dice.random() < 0.5:
        asked = member.share_acknowledge(epoch, acks, partition=told[0])
        if not group.slips("is not answered"):
            asked.answered(acks=errors)
        return epoch + 1
    listed = [told[0]] if told is not None else [] if epoch else [1] if group.slip == "lists nothing" else PARTITIONS
    asked = member.share_fetch(epoch, [*listed, 2] if group.slips("asks for more") else listed, acks=acks)
    if group.slips("is not answered"):
        return epoch + 1
    ranges = group.handed_out()
    timeout = 20000 if group.slips("is locked otherwise") else 30000
    asked.answered(acks=errors, responses=handed(*ranges), acquisition_lock_timeout_ms=timeout)
    mine += [(one[0], one[1], one[2]) for one in ranges]
    group.held += [(one[0], one[1], one[2]) for one in ranges]
    return epoch + 1
