"""Whose session ends is asked of the group, not of each of its partitions: it names the same ones as if each had been
asked."""

from __future__ import annotations

from random import Random

import pytest

from kshark.analysis.facts.calls import Partition
from kshark.analysis.states.partition.locks import GroupLocks, Locks
from kshark.analysis.states.partition.records_in_flight import Hold, May, RecordState
from kshark.analysis.states.tables.in_flight import ACQUIRED
from kshark.offset_ranges import OffsetRanges
from tests.analysis.plain import step

MEMBERS = "abcdef"


class Asked:
    """The locks of a partition, and each of them as it was added."""

    def __init__(self, partition: Partition, group: GroupLocks) -> None:
        self.locks = Locks(partition, group)
        self.records: OffsetRanges[May] = OffsetRanges()
        #: When they are out, whose they are, and their offset.
        self.added: list[tuple[int, str, int]] = []
        #: Those of them that were asked for since.
        self.old: list[tuple[int, str, int]] = []

    def add(self, member: str, late_ns: int) -> None:
        hold = Hold(step(1, member=member), late_ns, late_ns)
        first = (self.records.last or 0) + 1
        self.records.put(first, first, (RecordState(ACQUIRED, 1, hold),))
        self.locks.add(hold, first, first)
        self.locks.trim(self.records, len(self.records))
        self.added.append((late_ns, member, first))

    def out(self, now_ns: int) -> None:
        assert len(self.locks.out(now_ns)) == sum(late_ns < now_ns for late_ns, *_ in self.added)
        self.added = [one for one in self.added if one[0] >= now_ns]

    def is_concerned(self, member: str, now_ns: int, *, new: bool) -> bool:
        mine = [one for one in self.added if one[1] == member and not (new and one in self.old)]
        return any(late_ns < now_ns for late_ns, *_ in self.added) or len(mine) > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_group_names_the_partitions_that_the_end_of_a_session_concerns(seed: int) -> None:
    random, group, now_ns = Random(seed), GroupLocks(), 0
    partitions = {("t", number): Asked(("t", number), group) for number in range(5)}
    for _ in range(400):
        now_ns += random.randrange(20)
        asked, member = random.choice([*partitions.values()]), random.choice(MEMBERS)
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                asked.add(member, now_ns + random.randrange(1, 300))
            case 4:
                asked.out(now_ns)
            case 5 if random.random() < 0.2:
                asked.locks.clear()
                asked.added.clear()
            case 5:
                asked.out(now_ns)
                mine = [one for one in asked.added if one[1] == member]
                if is_new := random.random() < 0.5:
                    mine = [one for one in mine if one not in asked.old]
                assert asked.locks.of(member, new=is_new) == [(first, first) for *_, first in mine]
                asked.old += mine
                assert asked.locks.of(member, new=True) == []
            case _:
                over = set(random.sample([*partitions], random.randrange(5)))
                due = [key for key, one in partitions.items() if one.is_concerned(member, now_ns, new=key not in over)]
                named = group.concern(member, None, now_ns, over)
                assert set(due) <= set(named)
                assert named == sorted(named)
                # of a member that had locks it may still be named
                idle = {partition for partition in named if partition not in due}
                assert all(group.concern("nobody", None, now_ns, over).count(partition) == 0 for partition in idle)


def test_what_is_new_is_still_known_when_others_were_let_go_of() -> None:
    """Locks are kept by the time at which they are out, the last one first here."""
    asked = Asked(("t", 0), GroupLocks())
    asked.add("a", 1_000)
    asked.add("a", 900)
    for _ in range(100):
        asked.add("b", 1)
    assert asked.locks.of("a", new=True) == [(1, 1), (2, 2)]
    asked.out(2)
    asked.add("a", 800)
    assert asked.locks.of("a", new=True) == [(103, 103)]
    assert asked.locks.of("a") == [(1, 1), (2, 2), (103, 103)]


def test_a_group_forgets_who_has_no_locks_any_more() -> None:
    group = GroupLocks()
    asked = Asked(("t", 0), group)
    for number in range(300):
        asked.locks.add(Hold(step(1, member=str(number)), number, number), number, number)
        asked.locks.trim(asked.records, 0)
        asked.out(0)
    assert len([number for number in range(300) if group.concern(str(number), None, 0, ())]) < 200
    asked.locks.clear()
    assert not any(group.concern(str(number), None, 1 << 62, ()) for number in range(300))
