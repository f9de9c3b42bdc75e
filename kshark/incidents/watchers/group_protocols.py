"""Members that a coordinator refuses because the group speaks another protocol, or has no assignor that they know."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kshark.analysis.rules.rule import NOTES, Rule
from kshark.groups.listed import GroupType
from kshark.incidents.incident import witness_of
from kshark.incidents.sentences import listed
from kshark.incidents.series import Case, client_of
from kshark.model import Exchange, Witness
from kshark_dissectors.enums import ErrorCode

GROUP_PROTOCOL_CONFLICT: Final = Rule(
    number=None,
    code="GROUP_PROTOCOL_CONFLICT",
    text="A coordinator refuses a member because of the group's type, protocol or assignor.",
    source="Kafka: GroupMetadataManager.classicGroupJoin, ClassicGroup.supportsProtocols; KIP-848",
    blame=(),
    verdicts=NOTES,
    causes=("other_type", "other_protocol_type", "no_common_assignor", "unknown"),
    must="All members of a group are of one type, and share an assignor that each of them supports.",
    advice="Give each application its own group.id: a share group's id is not free for consumers. To change "
    "partition.assignment.strategy, roll out twice: first add the new assignor to the list of all members, then remove "
    "the old one.",
    weight=50,
)
#: The refusal that it explains.
CODE: Final = int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class Accepted(Struct, frozen=True):
    """The last JoinGroup of a group that was accepted."""

    client: str
    protocol_type: str
    assignors: frozenset[str]
    packet: int
    witness: tuple[Witness, ...]


def accepted(exchange: Exchange) -> Accepted:
    """Return an accepted JoinGroup."""
    body: Any = exchange.request.body if exchange.request is not None else None
    packet = exchange.request.packet if exchange.request is not None else 0
    names = frozenset(protocol.name for protocol in body.protocols or ())
    return Accepted(client_of(exchange), body.protocol_type, names, packet, witness_of(exchange))


def case_of(exchange: Exchange, type: GroupType | None, before: Accepted | None) -> Case:
    """Return a refusal with its cause. `type`: the group's, as far as the capture shows it."""
    request = exchange.request
    body: Any = None if request is None else request.body
    group_id = getattr(body, "group_id", None)
    who = f"broker {exchange.flow.broker} refused {request.api if request is not None else 'a request'} of "
    who += f"{client_of(exchange)} to group {group_id} with {ErrorCode(CODE).name} ({CODE})"
    cause, why, witness = _cause(exchange, type, before)
    return Case(
        GROUP_PROTOCOL_CONFLICT,
        f"{who}: {why}",
        cause,
        before=witness,
        about=(group_id, why),
        codes=(CODE,),
        group_id=group_id,
    )


def _cause(exchange: Exchange, type: GroupType | None, before: Accepted | None) -> tuple[str, str, tuple[Witness, ...]]:
    body: Any = None if exchange.request is None else exchange.request.body
    if type in ("share", "streams"):
        return "other_type", f"it is a {type} group", ()
    asked = frozenset(protocol.name for protocol in body.protocols or ())
    if before is not None and before.protocol_type != body.protocol_type:
        why = f'its protocol type is "{body.protocol_type}", and that of {before.client} "{before.protocol_type}"'
        return "other_protocol_type", f"{why} (packet {before.packet})", before.witness
    if before is not None and not asked & before.assignors:
        why = f"it supports {listed(sorted(asked))}, and {before.client} {listed(sorted(before.assignors))}"
        return "no_common_assignor", f"{why} (packet {before.packet})", before.witness
    return "unknown", "the capture does not show the protocols of the group's members", ()
