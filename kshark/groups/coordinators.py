"""The coordinators of groups, as FindCoordinator names them and as their answers show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kshark import limits
from kshark.endpoints import endpoint
from kshark.groups.listed import Coordinator
from kshark.groups.table import Group, GroupExchange, GroupTable
from kshark_dissectors.enums import CoordinatorType


def find_coordinator(table: GroupTable, exchange: GroupExchange) -> Sequence[str]:
    """Take a FindCoordinator; up to version 3 it asks for one key."""
    if exchange.answer is None or getattr(exchange.request, "key_type", _GROUP) != _GROUP:
        return ()
    groups = []
    for group_id, named in _named(exchange):
        if named.error_code == 0 and group_id:
            group = table.of(group_id)
            _set_named_broker(table, group, exchange, named.node_id, endpoint(named.host, named.port))
            groups.append(group_id)
    return groups


_GROUP: Final = CoordinatorType.GROUP
#: No client repeats a question, and least of all to another broker, within this time.
_AT_ONCE_NS: Final = 50_000_000


def _named(exchange: GroupExchange) -> Iterator[tuple[str, Any]]:
    coordinators = getattr(exchange.answer, "coordinators", None)
    if isinstance(coordinators, list):
        yield from ((coordinator.key, coordinator) for coordinator in coordinators)
    else:
        yield exchange.request.key, exchange.answer


def _set_named_broker(table: GroupTable, group: Group, exchange: GroupExchange, node_id: int, host: str) -> None:
    """Set the broker that FindCoordinator names. If it is the last named one, the coordinator has not moved, even if
    another address answered in between."""
    last = group.coordinators[-1] if group.coordinators else None
    if last is not None and last.node_id is None and table.sight.may_be(host, last.broker):
        last.node_id, last.host = node_id, host
    elif next(
        (
            (coordinator.node_id, coordinator.host)
            for coordinator in reversed(group.coordinators)
            if coordinator.node_id is not None
        ),
        None,
    ) != (
        node_id,
        host,
    ):
        group.coordinators.append(Coordinator(exchange.at.packet, exchange.at.time_ns, node_id, host))


def set_answering_broker(table: GroupTable, group: Group, exchange: GroupExchange) -> None:
    """Set the broker that answered as only the coordinator does. If it is the last such broker, the coordinator has not
    moved, even if another one was named in between."""
    if _is_alias(group, exchange):
        return
    last, broker = group.coordinators[-1] if group.coordinators else None, exchange.flow.broker
    if last is not None and last.broker is None and table.sight.may_be(last.host, broker):
        last.broker = broker
    elif (
        next(
            (coordinator.broker for coordinator in reversed(group.coordinators) if coordinator.broker is not None), None
        )
        != broker
    ):
        group.coordinators.append(Coordinator(exchange.at.packet, exchange.at.time_ns, broker=broker))


def _is_alias(group: Group, exchange: GroupExchange) -> bool:
    """True if the broker's address is another address of the coordinator, on the other side of a NAT: another address
    answered the same question just before."""
    broker, time_ns = exchange.flow.broker, exchange.at.time_ns
    question = (
        exchange.api_key,
        exchange.client_id,
        *(getattr(exchange.request, name, None) for name in ("member_id", "member_epoch", "generation_id")),
    )
    before, group.answered = group.answered, (broker, time_ns, question)
    is_again = (
        before is not None
        and before[0] not in {broker, *group.aliases}
        and before[2] == question
        and time_ns < before[1] + _AT_ONCE_NS
    )
    if is_again and len(group.aliases) < limits.BROKERS:
        group.aliases.add(broker)
    return broker in group.aliases
