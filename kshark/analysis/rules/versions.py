"""Versions that clients use, and that brokers support. Rules 13 to 16."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument
from kshark.analysis.facts.bases import BETWEEN_DIRECTIONS, SHARE_VERSION
from kshark.analysis.facts.calls import REJECTED_EARLY
from kshark.analysis.facts.heartbeats import UNCLEAR
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import NOTES, PROVED, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.tables import MEMBER, SESSION
from kshark.api_keys import SHARE_GROUP_DESCRIBE
from kshark.conditions import ALWAYS, F, any_of

_UNSUPPORTED_VERSION: Final = 35


def switched_off(situation: SessionSituation | MemberSituation) -> Argument | None:
    """Brokers refuse versions that they support while share groups are switched off in the cluster."""
    step = situation.step
    if step.answer is None or step.answer.error != _UNSUPPORTED_VERSION:
        return None
    return Argument(
        f"{step.story}: the broker supports this version, but share groups are switched off", (step,), EXCHANGE
    )


def not_advertised(odd: ByteFault) -> Argument | None:
    """Brokers close the connection of such a request without an answer.

    If the client closes, it may not have received a refusal yet.
    """
    if odd.end is None or not odd.is_over:
        return None
    argument = odd.at_end(CONNECTION.knowing(odd.closed_unanswered))
    return replace(
        argument,
        text=f"{odd.detail}: {odd.rule.sentence}{odd.often}; the connection was closed (packet {odd.end.packet})",
    )


ROWS: Final = (
    Rule(
        number=13,
        code="VERSION_NOT_ADVERTISED",
        text="A request has a version that the broker's ApiVersions answer does not list. The broker closed the "
        "connection.",
        source="Kafka: SocketServer, RequestContext; KAFKA-18659",
        rests_on=(BETWEEN_DIRECTIONS,),
        at="end",
        weird=("VERSION_NOT_ADVERTISED",),
        read="requests",
        checks=(Check(not_advertised),),
        sentence="the broker's ApiVersions answer does not list that version",
        act="used a version that the broker does not offer",
        weight=55,
        must="A request has an API and version that the broker's ApiVersions answer lists. For Kafka 4.0 and later "
        "Produce has version 3 or later, although the answer lists 0.",
        advice="Send ApiVersions first on each connection, and use the highest version that both sides support.",
        wrong="ApiVersions, ShareFetch 1-2; ShareFetch v9, closed",
        right="ApiVersions, ShareFetch 1-2; ShareFetch v2, answered",
        tickets=("KAFKA-18659",),
    ),
    Rule(
        number=14,
        code="APIVERSIONS_FALLBACK",
        text="A client sent a version of ApiVersions that the broker does not support.",
        wrong="ApiVersions v4, answered 35; ApiVersions v3, answered 0",
        right="ApiVersions v3, answered 0",
        source="KIP-511; Kafka: RequestContext",
        blame=(),
        verdicts=NOTES,
        weird=("APIVERSIONS_FALLBACK",),
        read="api_versions",
        refused_with=(35,),
        checks=(Check(ByteFault.argument),),
        sentence="the broker does not support that version",
        advice="Nothing: the broker is older than the client. The client asks again with a version from the answer.",
    ),
    Rule(
        number=None,
        code="SOFTWARE_NAME_INVALID",
        text="A client sends an invalid software name or version. The broker answers INVALID_REQUEST.",
        source="KIP-511; Kafka: ApiVersionsRequest.isValid",
        at="request",
        weird=("SOFTWARE_NAME_INVALID",),
        refused_with=(42,),
        verdicts=PROVED,
        checks=(Check(ByteFault.argument),),
        sentence="its software name or version is invalid",
        act="sent an invalid software name or version",
        weight=45,
        must="Name and version have letters, digits, dots and hyphens, and begin and end with a letter or a digit.",
        advice="Send the name and version of the library, not of the application, both without spaces. Do not send an "
        "empty string for an unknown name.",
        wrong='ApiVersions of "my client" 1.0, answered 42',
        right='ApiVersions of "my-client" 1.0, answered 0',
    ),
    Rule(
        number=15,
        code="EARLY_ACCESS_SHARE_API",
        text="A client uses share groups in the early-access protocol of Kafka 4.0. Later brokers do not support it.",
        wrong="ShareFetch v0, answered 0",
        right="ShareFetch v1, answered 0",
        source="KIP-932",
        blame=(),
        verdicts=NOTES,
        weird=("EARLY_ACCESS_SHARE_API",),
        read="share_requests",
        checks=(Check(ByteFault.argument),),
        sentence="early access to share groups",
        weight=20,
        advice="Use brokers and clients of 4.2 or later: early access was no promise, and its protocol ended with "
        "Kafka 4.0.",
    ),
    Rule(
        number=16,
        code="SHARE_FEATURE_OFF",
        text="Share groups are switched off in the cluster: the broker refuses a version that it supports.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 35",
        right="ShareGroupHeartbeat epoch 0, topics t → 0",
        source="Kafka: KafkaApis.isShareGroupProtocolEnabled",
        rests_on=(SHARE_VERSION,),
        blame=(),
        verdicts=NOTES,
        machine=SESSION,
        checks=(
            Check(switched_off, replies=(REJECTED_EARLY,), trigger=NOT_PLAIN),
            Check(switched_off, replies=(UNCLEAR,), machine=MEMBER, trigger=NOT_PLAIN),
        ),
        apis=(SHARE_GROUP_DESCRIBE,),
        when=ALWAYS,
        answer=any_of("groups", F("error_code") == _UNSUPPORTED_VERSION),
        sentence="share groups are switched off",
        weight=70,
        advice="Switch them on for the cluster: kafka-features.sh upgrade --feature share.version=1.",
    ),
)
