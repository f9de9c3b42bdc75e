"""What of a share group the capture does not hold: a broker, a listener, a beginning. What depends on it is not
known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark.groups.sight import Sight
from kshark.groups.table import Group

#: Addresses that are named one by one.
_NAMED: Final = 5


def missing_of(group: Group, sight: Sight) -> Iterator[str]:
    """What is missing, and what follows; nothing for groups of other types, which their coordinator alone tells of."""
    if group.now.type != "share":
        return
    table = group.coordinators[-1] if group.coordinators else None
    if group.members and not any(one.broker for one in group.coordinators):
        where = f", {table.host}," if table is not None and table.host is not None else ""
        yield f"heartbeats: its coordinator{where} was not captured, so who is in the group is not known"
    if unheard := sight.missing():
        others = sight.unnamed()
        unless = (
            f", unless {_few(others)} {'is one' if len(others) == 1 else 'are'} of them under another address"
            if others
            else ""
        )
        yield f"brokers {_few(unheard)}{unless}: what members do with partitions that are led there is not known"
    if group.begun:
        many = f"{len(group.begun)} of {len(group.members) + group.members_left_out} members"
        yield f"the beginning of {many}: what they had acquired, and were told, is not known"


def _few(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - _NAMED} more" if len(addresses) > _NAMED else ""
    return f"{', '.join(addresses[:_NAMED])}{more}"
