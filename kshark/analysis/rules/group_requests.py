"""Requests to the coordinator of a group that it refuses for what they say, whatever happened before."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.generations import UNKNOWN_MEMBER_ID
from kshark.analysis.rules.rule import NOTES, Rule
from kshark.api_keys import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT
from kshark.conditions import ALWAYS, F, any_of

_UNSUPPORTED_ASSIGNOR: Final = 112

ROWS: Final = (
    Rule(
        number=None,
        code="ASSIGNOR_UNKNOWN",
        text="A member of a consumer group names an assignor that the coordinator does not have.",
        weight=50,
        advice="Set group.remote.assignor of the consumer to one of the broker's group.consumer.assignors (uniform and "
        "range by default), or leave it out.",
        wrong="ConsumerGroupHeartbeat epoch 0, topics t → 112",
        right="ConsumerGroupHeartbeat epoch 0, topics t → 0, given 1",
        source="KIP-848; Kafka: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid",
        blame=(),
        verdicts=NOTES,
        apis=(CONSUMER_GROUP_HEARTBEAT,),
        when=ALWAYS,
        answer=F("error_code") == _UNSUPPORTED_ASSIGNOR,
        sentence="the coordinator has no assignor with the name in server_assignor",
    ),
    Rule(
        number=None,
        code="COMMIT_FROM_OUTSIDE",
        text="A client that is no member commits offsets of a group that has members.",
        weight=40,
        advice="Stop the consumers of the group before its offsets are changed (kafka-consumer-groups "
        "--reset-offsets), or give the client a group of its own.",
        wrong='OffsetCommit epoch -1, member id "" → 25',
        right='OffsetCommit epoch -1, member id "" → 0',
        source="Kafka: ClassicGroup.validateOffsetCommit, ConsumerGroup.validateOffsetCommit",
        blame=(),
        verdicts=NOTES,
        apis=(OFFSET_COMMIT,),
        when=~(F("generation_id_or_member_epoch") >= 0) & (F("member_id") == ""),
        answer=any_of("topics.partitions", F("error_code") == UNKNOWN_MEMBER_ID),
        sentence="the group has members, and the request names none",
    ),
)
