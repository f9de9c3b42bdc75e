"""Earlier requests of the members on a connection.

With them, one row of `share_requests` contains what otherwise only several rows show.
"""

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
    """A member's last request, and the partitions that its fetches listed."""

    packet: int = _UNKNOWN
    epoch: Any = None
    listed: set[_Partition] = field(default_factory=set)


class Earlier:
    """Earlier requests on one connection.

    Members and partitions beyond a limit are forgotten; their next request counts as the first.
    """

    def __init__(self) -> None:
        self._asked: dict[_Member, _Asked] = {}

    def previous_epoch(self, member: _Member, packet: int, epoch: Any) -> Any:
        """Return the epoch of the member's previous request, and remember this one.

        None if there is no previous request, or if it is in the same packet, so that the order is unknown.
        """
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
        """Return whether a fetch lists, and whether it acknowledges, a partition that no earlier fetch listed.

        The member must have a last request.
        """
        listed_before = self._asked[member].listed
        is_new = not listed_before.issuperset(listed), not listed_before.issuperset(acknowledged)
        listed_before.update(listed)
        if len(listed_before) > limits.SESSION_PARTITIONS:
            listed_before.clear()
        return is_new
