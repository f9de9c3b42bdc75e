"""The rebalances of all groups of a cluster."""

from __future__ import annotations

from typing import Final

from kshark.analysis import Moment
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from kshark.groups.rebalances import generations
from kshark.groups.rebalances.epochs import EpochRebalances
from kshark.groups.rebalances.generations import ClassicRebalances
from kshark.groups.rebalances.listing import Rebalance
from kshark.groups.rebalances.rows import Rows
from kshark.groups.table import Group, GroupExchange, GroupTable
from kshark.recent import Recent

_EPOCHS: Final = frozenset({CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT})
#: APIs of members of groups.
MEMBER_APIS: Final = _EPOCHS | generations.APIS


class _Followed:
    """One group. A group may change its type: its members' requests say by which protocol they speak."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.classic = ClassicRebalances(self.rows)
        self.epochs = EpochRebalances(self.rows)


class Rebalances:
    """Follow groups: `take` gets each exchange after the group has taken it. Beyond limits.GROUPS the groups without
    messages for longest are forgotten."""

    def __init__(self) -> None:
        self._groups: Recent[str, _Followed] = Recent(_Followed, "GROUPS")

    def take(self, table: GroupTable, exchange: GroupExchange) -> None:
        """Take an exchange of any API."""
        is_epochs = exchange.api_key in _EPOCHS
        if exchange.api_key not in MEMBER_APIS:
            return
        group = table.groups.get(getattr(exchange.request, "group_id", None) or "")
        if group is None or (not is_epochs and group.latest.type not in ("classic", None)):
            return
        followed = self._groups.of(group.group_id)
        (followed.epochs if is_epochs else followed.classic).take(table, group, exchange)

    def alive(self, group_id: str, member_id: str, at: Moment) -> None:
        """Take an accepted heartbeat that changed nothing."""
        followed = self._groups.get(group_id)
        if followed is not None:
            followed.classic.alive(member_id, at)

    def count(self, group_id: str) -> int:
        """Return the number of a group's rebalances that are over."""
        followed = self._groups.get(group_id)
        return 0 if followed is None else followed.rows.count

    def since(self, group: Group, count: int) -> list[Rebalance]:
        """Return the rebalances that are over, after the first `count` ones, as far as they are kept."""
        followed = self._groups.get(group.group_id)
        return [] if followed is None else [*followed.rows.since(count)]

    def lasting(self, table: GroupTable, group: Group, now: Moment) -> Rebalance | None:
        """Return the rebalance that no packet ends, by what is known now; None if there is none."""
        followed = self._groups.get(group.group_id)
        if followed is None:
            return None
        return followed.classic.lasting(table, group, now) or followed.epochs.lasting(group)
