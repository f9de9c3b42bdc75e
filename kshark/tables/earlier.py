"""What the members on a connection asked before: with it, one row of `share_requests` tells what else only several
would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from kshark import limits

#: Group and member; null and absent ones too.
_Member = tuple[Any, Any]
_Partition = tuple[str | None, int | None]
_UNKNOWN: Final = -1


@dataclass(slots=True, eq=False)
class _Asked:
    """The member's last request, and the partitions that its fetches listed."""

    packet: int = _UNKNOWN
    epoch: Any = None
    listed: set[_Partition] = field(default_factory=set)


class Earlier:
    """Of one connection. What goes beyond a limit is forgotten: what comes next then counts as the first."""

    def __init__(self) -> None:
        self._asked: dict[_Member, _Asked] = {}

    def previous_epoch(self, member: _Member, packet: int, epoch: Any) -> Any:
        """The epoch of the member's request before this one; null where there is none, or their packets do not tell the
        order."""
        asked = self._asked.get(member)
        if asked is None:
            if len(self._asked) >= limits.MEMBERS_OF_CONNECTION:
                self._asked.clear()
            asked = self._asked[member] = _Asked()
        previous = asked.epoch if asked.packet < packet else None
        asked.packet, asked.epoch = packet, epoch
        return previous

    def adds(
        self, member: _Member, listed: Collection[_Partition], acknowledged: Collection[_Partition]
    ) -> tuple[bool, bool]:
        """A fetch of a member that has a last request: whether it lists, and acknowledges, a partition that none before
        it listed."""
        known = self._asked[member].listed
        new = not known.issuperset(listed), not known.issuperset(acknowledged)
        known.update(listed)
        if len(known) > limits.SESSION_PARTITIONS:
            known.clear()
        return new
