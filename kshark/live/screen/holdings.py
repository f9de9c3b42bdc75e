"""The records that members hold: kept by share partition, and looked at again after a change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from kshark.analysis import Change, held_of
from kshark.live.screen.rows import Held, Holding, RowKey

#: Partitions without a change that are looked at again with each update: a state that became unknown is no change.
_AGAIN: Final = 100
_NEVER: Final = 1 << 63


class Holdings:
    """`change` takes changes of share partitions; `update` returns what members hold."""

    def __init__(self) -> None:
        #: Changed since the last update; and those whose records are held, with the last change of each.
        self._changed: dict[int, Change] = {}
        self._of: OrderedDict[int, tuple[Change, Holding]] = OrderedDict()

    def change(self, change: Change) -> None:
        self._changed[id(change.partition)] = change

    def update(self, now_ns: int) -> list[Holding]:
        """Return the partitions whose records are held at a time, which must not be in the past."""
        again = [at for at, (_, holding) in self._of.items() if holding.due_ns <= now_ns]
        for at in dict.fromkeys([*[*self._of][:_AGAIN], *again]):
            self._changed.setdefault(at, self._of[at][0])
        for at, change in self._changed.items():
            self._of.pop(at, None)
            if (holding := _holding(change, now_ns)) is not None:
                self._of[at] = change, holding
        self._changed.clear()
        return [holding for _, holding in self._of.values()]


def _holding(change: Change, now_ns: int) -> Holding | None:
    partition = change.partition
    ranges = tuple(held_of(partition, now_ns))
    if not ranges:
        return None
    topic_id, number = partition.partition
    group = RowKey(partition.leader.cluster, partition.group_id or "")
    due_ns = min([held.until_ns for held in ranges])
    return Holding(group, topic_id, number, partition.shown_start.offset, partition.end, ranges, due_ns)


def by_member(holdings: Iterable[Holding]) -> dict[RowKey, Held]:
    """Return what each member and each group holds."""
    held: dict[RowKey, Held] = {}
    for holding in holdings:
        for range_ in holding.ranges:
            for key in (holding.group._replace(member_id=range_.member_id), holding.group):
                before = held.get(key)
                records, until_ns = (0, _NEVER) if before is None else before
                held[key] = Held(records + range_.records, min(until_ns, range_.until_ns))
    return held
