"""Partitions of a group's topics that no member has: the result of its assignor, against the topics' partitions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kshark import limits
from kshark.groups.listed import Assigned, ListedMember
from kshark.groups.table import Group

#: States in which the members have what the assignor gave them.
_SETTLED: Final = "Stable"


class PartitionCounts:
    """The number of partitions of each topic, as the last Metadata answer has it."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, int] = OrderedDict()

    def feed(self, answer: Any) -> None:
        """Take a Metadata answer."""
        for topic in getattr(answer, "topics", None) or ():
            if topic.error_code == 0 and isinstance(topic.name, str) and topic.partitions:
                self._of[topic.name] = len(topic.partitions)
                self._of.move_to_end(topic.name)
                if len(self._of) > limits.GROUPS:
                    self._of.popitem(last=False)

    def get(self, topic: str) -> int | None:
        return self._of.get(topic)


def unassigned(group: Group, counts: PartitionCounts, names: Mapping[str, str]) -> Iterator[Assigned]:
    """Yield the partitions of subscribed topics that no member has, if the assignments of all members are known.

    `names`: topic names by topic id.
    """
    members = [group.members[member_id] for member_id in group.present]
    if group.latest.state != _SETTLED or not members or any(not _is_known(member) for member in members):
        return
    held: dict[str | None, set[int]] = {}
    for member in members:
        for one in member.assignment or ():
            held.setdefault(one.topic or names.get(one.topic_id or ""), set()).update(one.partitions)
    for topic in sorted({name for member in members for name in member.topics or ()}):
        count = counts.get(topic)
        missing = sorted({*range(count or 0)} - held.get(topic, set()))
        if missing and None not in held:
            yield Assigned(None, topic, missing)


def _is_known(member: ListedMember) -> bool:
    """True if the subscription and the assignment of a member are known."""
    return member.topics is not None and member.assigned is not None and member.assignment is not None
