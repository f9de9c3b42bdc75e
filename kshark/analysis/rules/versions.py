"""Versions that clients ask for and call themselves, and what a broker has of them. Rules 13 to 16."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument
from kshark.analysis.facts.calls import REJECTED_EARLY
from kshark.analysis.facts.heartbeats import UNCLEAR
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import NOTES, PROVED, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.session.situation import Situation
from kshark.analysis.states.tables import MEMBER, SESSION
from kshark.api_keys import SHARE_GROUP_DESCRIBE
from kshark.conditions import ALWAYS, F, any_of

_UNSUPPORTED_VERSION: Final = 35


def switched_off(situation: Situation | MemberSituation) -> Argument | None:
    """Brokers say so of versions that they have, where the cluster has not switched share groups on."""
    step = situation.step
    if step.answer is None or step.answer.error != _UNSUPPORTED_VERSION:
        return None
    return Argument(f"{step.story}: the broker has this version, and share groups are switched off", (step,), EXCHANGE)


def not_advertised(odd: ByteFault) -> Argument | None:
    """Brokers close the connection of such a request without a word; a client that closes may have seen no refusal
    yet."""
    if odd.end is None or not odd.is_over:
        return None
    argument = odd.at_end(CONNECTION, because=None if odd.closed_by == "broker" else "end_not_seen")
    return replace(
        argument,
        text=f"{odd.detail}: {odd.rule.sentence}{odd.often}; the connection was closed (packet {odd.end.packet})",
    )


ROWS: Final = (
    Rule(
        number=13,
        code="VERSION_NOT_ADVERTISED",
        text="A request in a version that the broker does not have, as it had told: it closed the connection.",
        source="Kafka: SocketServer, RequestContext; KAFKA-18659",
        at="end",
        weird=("VERSION_NOT_ADVERTISED",),
        read="requests",
        checks=(Check(not_advertised),),
        sentence="the broker's answer to ApiVersions does not have that version",
        must="A request has an API and version that the broker's answer to ApiVersions names; of Produce those from 3 "
        "on where Kafka is 4.0 or later, though its answer says 0.",
        advice="Ask ApiVersions first on each connection, and use the highest version that both sides have.",
        wrong="ApiVersions, ShareFetch 1-2; ShareFetch v9, closed",
        right="ApiVersions, ShareFetch 1-2; ShareFetch v2, answered",
        tickets=("KAFKA-18659",),
    ),
    Rule(
        number=14,
        code="APIVERSIONS_FALLBACK",
        text="A client asked for a version of ApiVersions that the broker does not have.",
        wrong="ApiVersions v4, answered 35; ApiVersions v3, answered 0",
        right="ApiVersions v3, answered 0",
        source="KIP-511; Kafka: RequestContext",
        blame=(),
        verdicts=NOTES,
        weird=("APIVERSIONS_FALLBACK",),
        read="api_versions",
        refused_with=(35,),
        checks=(Check(ByteFault.argument),),
        sentence="the broker does not have that version",
        advice="None: the broker is older than the client, which asks once more with a version that the answer names.",
    ),
    Rule(
        number=None,
        code="SOFTWARE_NAME_INVALID",
        text="A client names its software, or the version of it, as no broker takes it: the answer is INVALID_REQUEST.",
        source="KIP-511; Kafka: ApiVersionsRequest.isValid",
        at="request",
        weird=("SOFTWARE_NAME_INVALID",),
        refused_with=(42,),
        verdicts=PROVED,
        checks=(Check(ByteFault.argument),),
        sentence="its software's name or version is none",
        must="Name and version have letters, digits, dots and hyphens, and begin and end with a letter or a digit.",
        advice="Name the library, not the application, and its version, both without spaces; a name that is not known "
        "is no empty text.",
        wrong='ApiVersions of "my client" 1.0, answered 42',
        right='ApiVersions of "my-client" 1.0, answered 0',
    ),
    Rule(
        number=15,
        code="EARLY_ACCESS_SHARE_API",
        text="A client uses share groups as Kafka 4.0 had them for early access; later brokers do not take that.",
        wrong="ShareFetch v0, answered 0",
        right="ShareFetch v1, answered 0",
        source="KIP-932",
        blame=(),
        verdicts=NOTES,
        weird=("EARLY_ACCESS_SHARE_API",),
        read="share_requests",
        checks=(Check(ByteFault.argument),),
        sentence="early access to share groups",
        advice="Use brokers and clients from 4.2 on: early access was no promise, and its protocol ended with Kafka "
        "4.0.",
    ),
    Rule(
        number=16,
        code="SHARE_FEATURE_OFF",
        text="Share groups are switched off in the cluster: the broker refuses a version that it has.",
        wrong="ShareGroupHeartbeat epoch 0, topics t → 35",
        right="ShareGroupHeartbeat epoch 0, topics t → 0",
        source="Kafka: KafkaApis.isShareGroupProtocolEnabled",
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
        advice="Switch them on for the cluster: kafka-features.sh upgrade --feature share.version=1.",
    ),
)
