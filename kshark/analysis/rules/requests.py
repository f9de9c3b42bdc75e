"""Mistakes that a single exchange shows. Rules 24, 41, 46, 54 and 55."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import (
    FAILED_LATER,
    FAILED_REOPEN,
    LONGEST_MEMBER_ID,
    REJECTED_EARLY,
    UNCLEAR,
    has_uuid,
)
from kshark.analysis.facts.heartbeats import INVALID
from kshark.analysis.facts.releases import all_say
from kshark.analysis.rules.rule import Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.session.situation import Situation
from kshark.analysis.states.tables import MEMBER, SESSION
from kshark.api_keys import SHARE_FETCH
from kshark.conditions import ALWAYS, ELEMENT, F, any_of, size
from kshark_dissectors.enums import AcknowledgeType

_INVALID_REQUEST: Final = 42
#: Batches of acknowledgements, by their types, and those that renew locks.
_RENEWS: Final = any_of("topics.partitions.acknowledgement_batches.acknowledge_types", ELEMENT == AcknowledgeType.RENEW)
_FETCHES_TOO: Final = (F("max_wait_ms") > 0) | (F("min_bytes") > 0) | (F("max_bytes") > 0) | (F("max_records") > 0)


def named_badly(now: Situation) -> Argument | None:
    """Null, empty, longer than a broker takes; until 4.1 also what is no uuid in URL-safe base64 (Kafka:
    Uuid.fromString)."""
    step = now.step
    if step.is_named and (has_uuid(step.member_id) or not all_say(now.session.releases, "reads_uuids")):
        return None
    if step.member_id is None:
        what = "null"
    elif not step.is_named:
        what = f"{len(step.member_id)} characters long"
    else:
        foreign = next((one for one in step.member_id if one in "+/"), None)
        what = "no uuid in URL-safe base64" + ("" if foreign is None else f', which has no "{foreign}"')
    return Argument(f"{step.story}; its member id is {what}", (step,), EXCHANGE)


def named_too_long(now: MemberSituation) -> Argument | None:
    """Longer than a coordinator takes, in a heartbeat."""
    member_id = now.step.member_id
    if member_id is None or len(member_id) <= LONGEST_MEMBER_ID:
        return None
    text = f"{now.step.story}; its member id is {len(member_id)} characters long"
    return Argument(text, (now.step,), EXCHANGE, "invalid_member_id")


ROWS: Final = (
    Rule(
        number=24,
        code="ACK_IN_INITIAL_FETCH",
        text="A ShareFetch that opens a session carries acknowledgements.",
        must="The ShareFetch that opens a session acknowledges nothing.",
        advice="Give up acknowledgements that were not sent when the session is lost: the records come again. Java "
        "clients do so "
        "from 4.1.1 on.",
        wrong="ShareFetch epoch 0, accept 0-4 → 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, accept 0-4 → 0",
        source="Kafka: SharePartitionManager.newContext",
        tickets=("KAFKA-18198", "KAFKA-19485"),
        apis=(SHARE_FETCH,),
        given=F("share_session_epoch") == 0,
        when=any_of("topics.partitions", size("acknowledgement_batches") > 0),
        answer=F("error_code") == _INVALID_REQUEST,
        told="it opens a session and acknowledges records",
    ),
    Rule(
        number=41,
        code="FINAL_WITH_PAYLOAD",
        text="A closing ShareFetch lists partitions without acknowledging anything.",
        must="The ShareFetch that closes a session lists partitions only to acknowledge their records.",
        advice="Close by a ShareAcknowledge, or list nothing else: Kafka 4.0 refuses the request, and the session "
        "stays open.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch -1, list t[0] → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0",
        source="Kafka 4.0: SharePartitionManager",
        tickets=("KAFKA-20736",),
        at="request",
        apis=(SHARE_FETCH,),
        given=F("share_session_epoch") == -1,
        # Partitions that it forgets are no payload: Java clients forget what they give up with whatever request comes
        # next.
        when=any_of("topics.partitions", size("acknowledgement_batches") == 0),
        told="it closes the session and lists partitions without acknowledging records",
    ),
    Rule(
        number=46,
        code="MEMBER_ID_INVALID",
        text="A member id that is null, empty or longer than 36 characters; for brokers before 4.2 one that is no "
        "uuid in URL-safe base64.",
        must="A member id has 1 to 36 characters; for brokers before 4.2 it is a uuid in URL-safe base64.",
        advice="Make the id once, a random uuid as Kafka writes it (22 characters, - and _ for + and /), and use it "
        "in every request of "
        "the member.",
        wrong='ShareFetch epoch 0, member id "" → 42',
        right="ShareFetch epoch 0 → 0",
        source="Kafka: KafkaApis.isMemberIdValid",
        causes=("invalid_member_id",),
        machine=SESSION,
        checks=(
            Check(named_badly, replies=(REJECTED_EARLY, UNCLEAR, FAILED_LATER, FAILED_REOPEN), trigger=NOT_PLAIN),
            Check(named_too_long, replies=(INVALID,), order=220, machine=MEMBER, reported_unproved=True),
        ),
    ),
    Rule(
        number=54,
        code="RENEW_FLAG_MISUSE",
        text="A request says that it renews locks, and renews none or asks for records, too.",
        must="A ShareFetch with is_renew_ack renews locks, and asks for no records: max_wait_ms, min_bytes, max_bytes "
        "and max_records "
        "are 0.",
        advice="Renew by a ShareAcknowledge, or with all four limits 0, and fetch with the next request. Set "
        "is_renew_ack only where a "
        "type 4 is sent: without one nothing is renewed and nothing is handed out.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9, max_records 500 → 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0",
        source="KIP-1222",
        apis=(SHARE_FETCH,),
        given=F("is_renew_ack").is_true(),
        when=~_RENEWS | _FETCHES_TOO,
        told="it says that it renews locks, and renews none or asks for records, too",
    ),
    Rule(
        number=55,
        code="RECORDS_ON_RENEW",
        text="A request that only renews locks is handed records.",
        must="A ShareFetch that renews locks is handed no records.",
        advice="Take what is handed out for acquired: process it or release it, else it stays locked until its lock "
        "is out. Report it to "
        "Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0, offsets 10-19",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0",
        source="KIP-1222",
        blame=("broker",),
        apis=(SHARE_FETCH,),
        given=F("is_renew_ack").is_true(),
        when=ALWAYS,
        answer=any_of("responses.partitions.acquired_records", F("delivery_count") > 0),
        told="it renews locks, and is handed records",
    ),
)
