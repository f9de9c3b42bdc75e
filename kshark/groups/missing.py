"""The parts of a share group's traffic that the capture does not have: a broker, a listener, the beginning of members.
Everything that depends on them is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark.groups.sight import Sight
from kshark.groups.table import Group

#: The most addresses in one sentence.
_NAMED: Final = 5


def missing_of(group: Group, sight: Sight) -> Iterator[str]:
    """Yield each missing part and what is unknown without it; nothing for groups of other types, where the coordinator
    shows everything."""
    if group.latest.type != "share":
        return
    if group.members and not _is_heard(group):
        coordinator = group.coordinators[-1] if group.coordinators else None
        where = f", {coordinator.host}," if coordinator is not None and coordinator.host is not None else ""
        if coordinator is not None and sight.is_seen(coordinator.host):
            yield f"heartbeats: none to its coordinator{where} was answered, so the members of the group are unknown"
        else:
            yield f"heartbeats: its coordinator{where} was not captured, so the members of the group are unknown"
    if missing := sight.missing():
        others = sight.unnamed()
        unless = (
            f", unless {_few(others)} {'is one' if len(others) == 1 else 'are'} of them under another address"
            if others
            else ""
        )
        yield f"brokers {_few(missing)}{unless}: requests for partitions that are led there are unknown"
    if group.begun:
        many = f"{len(group.begun)} of {len(group.members) + group.members_left_out} members"
        yield f"the beginning of {many}: their earlier acquisitions and assignments are unknown"


def _is_heard(group: Group) -> bool:
    """True if the group's coordinator answered a member, even with an error that any broker may give."""
    return any(life.is_answered for life in group.lives.values()) or any(
        coordinator.broker is not None for coordinator in group.coordinators
    )


def _few(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - _NAMED} more" if len(addresses) > _NAMED else ""
    return f"{', '.join(addresses[:_NAMED])}{more}"
