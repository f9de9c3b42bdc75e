"""Count the members of groups by their heartbeats."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from kshark import limits
from kshark.analysis.facts.reading import is_whole
from kshark.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    LEAVE_GROUP,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
)
from kshark.live.metrics.families import label
from kshark.model import Exchange

#: The type of a group, by the API of its members' heartbeats.
TYPES: Final = {
    SHARE_GROUP_HEARTBEAT: "share",
    CONSUMER_GROUP_HEARTBEAT: "consumer",
    STREAMS_GROUP_HEARTBEAT: "streams",
    HEARTBEAT: "classic",
}
#: A member without a heartbeat for this long is gone: the default session timeout of every type.
GONE_NS: Final = 45_000_000_000
#: The epoch with which a member leaves.
_LEAVES: Final = -1

#: Group, member, and type of the group: as labels, since names in a capture may be long.
_Member = tuple[str, str, str]


class Members:
    """The members of groups; `feed` takes exchanges, `count` returns their number."""

    def __init__(self) -> None:
        #: By member, the time of its last heartbeat; the latest are the last.
        self._last_ns: OrderedDict[_Member, int] = OrderedDict()

    def feed(self, exchange: Exchange) -> None:
        """Take an exchange of any API."""
        request, response = exchange.request, exchange.response
        if request is None or response is None or not is_whole(request) or not is_whole(response):
            return
        asked, answer = request.body, response.body
        if request.api_key == LEAVE_GROUP:
            if answer.error_code == 0:
                for member_id in _leaving(asked):
                    self._last_ns.pop((label(asked.group_id), label(member_id), TYPES[HEARTBEAT]), None)
            return
        kind = TYPES.get(request.api_key)  # type: ignore[arg-type]  # UNSET is no key
        if kind is None or answer.error_code:
            return
        member = label(asked.group_id), label(getattr(answer, "member_id", None) or asked.member_id), kind
        if getattr(asked, "member_epoch", 0) == _LEAVES:
            self._last_ns.pop(member, None)
            return
        self._last_ns[member] = response.time_ns
        self._last_ns.move_to_end(member)
        if len(self._last_ns) > limits.GROUP_MEMBERS:
            self._last_ns.popitem(last=False)

    def count(self, now_ns: int) -> Counter[tuple[str, str]]:
        """Return the number of members by group and type, and forget those that are gone."""
        while self._last_ns and next(iter(self._last_ns.values())) < now_ns - GONE_NS:
            self._last_ns.popitem(last=False)
        return Counter((group, kind) for group, _, kind in self._last_ns)


def _leaving(asked: Any) -> Iterator[str]:
    """Yield the ids of the members that leave."""
    member_id = getattr(asked, "member_id", None)
    if isinstance(member_id, str):
        yield member_id
    for member in getattr(asked, "members", None) or ():
        yield member.member_id
