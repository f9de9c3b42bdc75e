"""Mistakes that a single exchange shows. Rules 24, 41 and 46."""

from __future__ import annotations

from typing import Final

from kshark.analysis.argument import EXCHANGE, Argument
from kshark.analysis.machines import SESSION
from kshark.analysis.releases import Release
from kshark.analysis.rules.rule import Check, Rule
from kshark.analysis.situation import Situation
from kshark.analysis.steps import FAILED_LATER, FAILED_REOPEN, LONGEST_MEMBER_ID, REJECTED_EARLY, UNCLEAR, has_uuid
from kshark.api_keys import SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.conditions import F, any_of, size

_INVALID_REQUEST: Final = 42
_BEFORE_4_2: Final = frozenset({Release.V4_0, Release.V4_1})


def named_badly(now: Situation) -> Argument | None:
    """Null, empty, longer than a broker takes; until 4.1 also what is no uuid in base64."""
    step = now.step
    if step.is_named and (has_uuid(step.member_id) or not now.session.releases <= _BEFORE_4_2):
        return None
    what = "null" if step.member_id is None else f"{len(step.member_id)} characters long" if not step.is_named else "no uuid in base64"
    return Argument(f"{step.story}; its member id is {what}", (step,), EXCHANGE)


ROWS: Final = (
    Rule(
        number=24,
        code="ACK_IN_INITIAL_FETCH",
        text="A ShareFetch that opens a session carries acknowledgements.",
        source="KAFKA-18198",
        apis=(SHARE_FETCH,),
        when=(F("share_session_epoch") == 0) & any_of("topics.partitions", size("acknowledgement_batches") > 0),
        answer=F("error_code") == _INVALID_REQUEST,
        told="it opens a session and acknowledges records",
    ),
    Rule(
        number=41,
        code="FINAL_WITH_PAYLOAD",
        text="A closing ShareFetch lists partitions without acknowledging anything.",
        source="Kafka 4.0: SharePartitionManager",
        at="request",
        apis=(SHARE_FETCH,),
        # Partitions that it forgets are no payload: Java clients forget what they give up with whatever request comes next.
        when=(F("share_session_epoch") == -1) & any_of("topics.partitions", size("acknowledgement_batches") == 0),
        told="it closes the session and lists partitions without acknowledging records",
    ),
    Rule(
        number=46,
        code="MEMBER_ID_INVALID",
        text="A member id that is null, empty or longer than 36 characters; for brokers before 4.2 one that is no uuid in base64, too.",
        source="Kafka: KafkaApis.isMemberIdValid",
        machine=SESSION,
        checks=(Check(named_badly, replies=(REJECTED_EARLY, UNCLEAR, FAILED_LATER, FAILED_REOPEN)),),
        apis=(SHARE_GROUP_HEARTBEAT,),
        when=(F("member_id") == "") | F("member_id").matches(rf"^.{{{LONGEST_MEMBER_ID + 1},}}$"),
        answer=F("error_code") == _INVALID_REQUEST,
        told="its member id is empty or longer than a broker takes",
    ),
)
