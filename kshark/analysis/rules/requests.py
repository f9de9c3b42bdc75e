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
from kshark.analysis.facts.releases import agreed
from kshark.analysis.rules.rule import Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.member.situation import MemberSituation
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.tables import MEMBER, SESSION
from kshark.api_keys import SHARE_FETCH
from kshark.conditions import ALWAYS, ELEMENT, F, any_of, size
from kshark_dissectors.enums import AcknowledgeType

_INVALID_REQUEST: Final = 42
#: Requests with acknowledgements that renew locks, and requests that ask for records.
_RENEWS: Final = any_of("topics.partitions.acknowledgement_batches.acknowledge_types", ELEMENT == AcknowledgeType.RENEW)
_FETCHES_TOO: Final = (F("max_wait_ms") > 0) | (F("min_bytes") > 0) | (F("max_bytes") > 0) | (F("max_records") > 0)


def invalid_member_id(situation: SessionSituation) -> Argument | None:
    """The member id is null, empty or too long.

    Up to 4.1 it must also be a UUID in URL-safe base64 (Kafka: Uuid.fromString).
    """
    step = situation.step
    if step.is_named and (has_uuid(step.member_id) or not agreed(situation.session.releases, "reads_uuids")):
        return None
    if step.member_id is None:
        fault = "null"
    elif not step.is_named:
        fault = f"{len(step.member_id)} characters long"
    else:
        foreign = next((character for character in step.member_id if character in "+/"), None)
        fault = "not a UUID in URL-safe base64" + ("" if foreign is None else f', which has no "{foreign}"')
    return Argument(f"{step.story}; its member id is {fault}", (step,), EXCHANGE)


def member_id_too_long(situation: MemberSituation) -> Argument | None:
    """A heartbeat has a longer member id than a coordinator accepts."""
    member_id = situation.step.member_id
    if member_id is None or len(member_id) <= LONGEST_MEMBER_ID:
        return None
    text = f"{situation.step.story}; its member id is {len(member_id)} characters long"
    return Argument(text, (situation.step,), EXCHANGE, "invalid_member_id")


ROWS: Final = (
    Rule(
        number=24,
        code="ACK_IN_INITIAL_FETCH",
        text="A ShareFetch that opens a session carries acknowledgements.",
        act="sent acknowledgements with the ShareFetch that opens a session: they are lost",
        weight=65,
        must="A ShareFetch that opens a session acknowledges nothing.",
        advice="When a session is lost, drop the acknowledgements that were not sent: the records are delivered "
        "again. Java clients do so since 4.1.1.",
        wrong="ShareFetch epoch 0, accept 0-4 → 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, accept 0-4 → 0",
        source="Kafka: SharePartitionManager.newContext",
        tickets=("KAFKA-18198", "KAFKA-19485"),
        apis=(SHARE_FETCH,),
        given=F("share_session_epoch") == 0,
        when=any_of("topics.partitions", size("acknowledgement_batches") > 0),
        answer=F("error_code") == _INVALID_REQUEST,
        sentence="it opens a session and acknowledges records",
    ),
    Rule(
        number=41,
        code="FINAL_WITH_PAYLOAD",
        text="A ShareFetch that closes a session lists partitions without acknowledging anything.",
        act="listed partitions in the ShareFetch that closes the session",
        weight=20,
        must="A ShareFetch that closes a session lists partitions only to acknowledge their records.",
        advice="Close with a ShareAcknowledge, or list no other partitions: Kafka 4.0 refuses the request, and the "
        "session stays open.",
        wrong="ShareFetch epoch 0 → 0; ShareFetch epoch -1, list t[0] → 0",
        right="ShareFetch epoch 0 → 0; ShareFetch epoch -1 → 0",
        source="Kafka 4.0: SharePartitionManager",
        tickets=("KAFKA-20736",),
        at="request",
        apis=(SHARE_FETCH,),
        given=F("share_session_epoch") == -1,
        # Forgotten partitions are allowed: Java clients forget the partitions that they lost with their next request.
        when=any_of("topics.partitions", size("acknowledgement_batches") == 0),
        sentence="it closes the session and lists partitions without acknowledging records",
    ),
    Rule(
        number=46,
        code="MEMBER_ID_INVALID",
        text="A member id is null, empty or longer than 36 characters, or for brokers before 4.2 not a UUID in "
        "URL-safe base64.",
        act="sent a member id that brokers do not accept",
        weight=50,
        must="A member id has 1 to 36 characters. For brokers before 4.2 it is a UUID in URL-safe base64.",
        advice="Create the id once: a random UUID in Kafka's format (22 characters, - and _ instead of + and /). Use "
        "it in every request of the member.",
        wrong='ShareFetch epoch 0, member id "" → 42',
        right="ShareFetch epoch 0 → 0",
        source="Kafka: KafkaApis.isMemberIdValid",
        causes=("invalid_member_id",),
        machine=SESSION,
        checks=(
            Check(invalid_member_id, replies=(REJECTED_EARLY, UNCLEAR, FAILED_LATER, FAILED_REOPEN), trigger=NOT_PLAIN),
            Check(member_id_too_long, replies=(INVALID,), order=220, machine=MEMBER, reported_unproved=True),
        ),
    ),
    Rule(
        number=54,
        code="RENEW_FLAG_MISUSE",
        text="A request sets is_renew_ack, but renews no locks or also asks for records.",
        act="set is_renew_ack in a request that does not only renew locks",
        weight=45,
        must="A ShareFetch with is_renew_ack renews locks and asks for no records: max_wait_ms, min_bytes, max_bytes "
        "and max_records are 0.",
        advice="Renew with a ShareAcknowledge, or with all four limits 0, and fetch with the next request. Set "
        "is_renew_ack only together with type 4: without it nothing is renewed and no records are delivered.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9, max_records 500 → 42",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0",
        provoked_by="Renew a lock: KafkaShareConsumer with share.acknowledgement.mode=explicit and "
        "AcknowledgeType.RENEW (Kafka 4.2).",
        source="KIP-1222",
        apis=(SHARE_FETCH,),
        given=F("is_renew_ack").is_true(),
        when=~_RENEWS | _FETCHES_TOO,
        sentence="it sets is_renew_ack, but renews no locks or also asks for records",
    ),
    Rule(
        number=55,
        code="RECORDS_ON_RENEW",
        text="A request that only renews locks receives records.",
        act="sent records with the answer to a request that only renews locks",
        weight=70,
        must="A ShareFetch that renews locks receives no records.",
        advice="Treat the records as acquired: process or release them, or they stay locked until their lock expires. "
        "Report it to Kafka with these packets.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0, offsets 10-19",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareFetch epoch 1, renew 0-9 → 0",
        source="KIP-1222",
        blame=("broker",),
        apis=(SHARE_FETCH,),
        given=F("is_renew_ack").is_true(),
        when=ALWAYS,
        answer=any_of("responses.partitions.acquired_records", F("delivery_count") > 0),
        sentence="it renews locks and receives records",
    ),
)
