"""Which broker coordinates a group: as FindCoordinator says, and as its answers show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dissectors.enums import CoordinatorType
from kshark import limits
from kshark.endpoints import endpoint
from kshark.groups.listed import Coordinator
from kshark.groups.table import Group, GroupExchange, GroupTable


def found(table: GroupTable, heard: GroupExchange) -> Sequence[str]:
    """FindCoordinator; up to version 3 it asks for one key."""
    if heard.answer is None or getattr(heard.asked, "key_type", _GROUP) != _GROUP:
        return ()
    groups = []
    for group_id, named in _named(heard):
        if named.error_code == 0 and group_id:
            group = table.of(group_id)
            _take(table, group, heard, named.node_id, endpoint(named.host, named.port))
            groups.append(group_id)
    return groups


_GROUP: Final = CoordinatorType.GROUP
#: So soon nobody is answered the same again, least of all by another broker.
_AT_ONCE_NS: Final = 50_000_000


def _named(heard: GroupExchange) -> Iterator[tuple[str, Any]]:
    coordinators = getattr(heard.answer, "coordinators", None)
    if isinstance(coordinators, list):
        yield from ((one.key, one) for one in coordinators)
    else:
        yield heard.asked.key, heard.answer


def _take(table: GroupTable, group: Group, heard: GroupExchange, node_id: int, host: str) -> None:
    """It is named; once more as before, it has not moved, whoever answered meanwhile."""
    last = group.coordinators[-1] if group.coordinators else None
    if last is not None and last.node_id is None and table.sight.may_be(host, last.broker):
        last.node_id, last.host = node_id, host
    elif next(((one.node_id, one.host) for one in reversed(group.coordinators) if one.node_id is not None), None) != (
        node_id,
        host,
    ):
        group.coordinators.append(Coordinator(heard.at.packet, heard.at.time_ns, node_id, host))


def answers_for(table: GroupTable, group: Group, heard: GroupExchange) -> None:
    """A broker answered as only the coordinator does; the one that did before has not moved, whoever was named
    meanwhile."""
    if _is_alias(group, heard):
        return
    last, broker = group.coordinators[-1] if group.coordinators else None, heard.flow.broker
    if last is not None and last.broker is None and table.sight.may_be(last.host, broker):
        last.broker = broker
    elif next((one.broker for one in reversed(group.coordinators) if one.broker is not None), None) != broker:
        group.coordinators.append(Coordinator(heard.at.packet, heard.at.time_ns, broker=broker))


def _is_alias(group: Group, heard: GroupExchange) -> bool:
    """Whether an address is the coordinator's on the other side of a NAT: the same was answered at another one just
    before."""
    broker, time_ns = heard.flow.broker, heard.at.time_ns
    said = (
        heard.api_key,
        heard.client_id,
        *(getattr(heard.asked, name, None) for name in ("member_id", "member_epoch", "generation_id")),
    )
    before, group.answered = group.answered, (broker, time_ns, said)
    is_again = (
        before is not None
        and before[0] not in {broker, *group.aliases}
        and before[2] == said
        and time_ns < before[1] + _AT_ONCE_NS
    )
    if is_again and len(group.aliases) < limits.BROKERS:
        group.aliases.add(broker)
    return broker in group.aliases
