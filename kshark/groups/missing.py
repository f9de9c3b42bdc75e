"""What of a share group the capture does not hold: a broker, a listener, a beginning. What depends on it is not known."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from kshark import limits
from kshark.api_keys import METADATA
from kshark.endpoints import endpoint
from kshark.groups.known import Group
from kshark.model import Exchange

#: Addresses that are named one by one.
_NAMED: Final = 5


class Sight:
    """Brokers of a cluster: those that Metadata names by address, and those that spoke. Names of hosts are resolved elsewhere."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._heard: set[str] = set()

    def feed(self, exchange: Exchange) -> None:
        if len(self._heard) < limits.BROKERS:
            self._heard.add(exchange.flow.broker)
        answer = exchange.response
        if answer is None or answer.api_key != METADATA:
            return
        for one in getattr(answer.body, "brokers", None) or ():
            if isinstance(one.host, str) and isinstance(one.port, int) and len(self._named) < limits.BROKERS and _is_address(one.host):
                self._named[endpoint(one.host, one.port)] = None

    def missing(self) -> list[str]:
        """Addresses of brokers of which nothing was captured."""
        return [address for address in self._named if address not in self._heard]


def missing_of(group: Group, sight: Sight) -> Iterator[str]:
    """What is missing, and what follows; nothing for groups of other types, which their coordinator alone tells of."""
    if group.now.type != "share":
        return
    known = group.coordinators[-1] if group.coordinators else None
    if group.members and not any(one.broker for one in group.coordinators):
        where = f", {known.host}," if known is not None and known.host is not None else ""
        yield f"heartbeats: its coordinator{where} was not captured, so who is in the group is not known"
    if unheard := sight.missing():
        more = f" and {len(unheard) - _NAMED} more" if len(unheard) > _NAMED else ""
        yield f"brokers {', '.join(unheard[:_NAMED])}{more}: what members do with partitions that are led there is not known"
    if group.begun:
        many = f"{len(group.begun)} of {len(group.members) + group.members_left_out} members"
        yield f"the beginning of {many}: what they had acquired, and were told, is not known"


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
