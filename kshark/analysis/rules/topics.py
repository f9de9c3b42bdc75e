"""Topics and partitions that the broker does not know. Rule 71."""

from __future__ import annotations

from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import NO_ADMIN, NO_CONNECTION
from kshark.analysis.facts.calls import FAILED_LATER, INITIAL, SUBSEQUENT
from kshark.analysis.rules.refusals import refusal
from kshark.analysis.rules.rule import NOTES_TOO, Check, Rule
from kshark.analysis.rules.triggers import NOT_PLAIN
from kshark.analysis.states.partition.situations import Acknowledging, Unserved
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.tables import IN_FLIGHT, SESSION

_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_UNKNOWN_TOPIC_ID: Final = 100
#: A topic id of zeros, which no topic has.
_ZERO: Final = "A" * 22


def topic_unknown(situation: Acknowledging) -> Argument | None:
    """The broker knows no topic with that id, as its answer says.

    It was deleted since, if records of it were acquired before. It never existed, if the member's traffic is complete
    and has none.
    """
    if situation.error != _UNKNOWN_TOPIC_ID:
        return None
    text = f"the broker knows no topic with the id {situation.partition[0]}"
    acquired = situation.share_partition.acquired_here or situation.share_partition.reached >= 0
    was_deleted = acquired or situation.received.since > situation.step.packet
    return refusal(situation, text, "unknown_topic", situation.extent, noted=was_deleted)


def fetched_topic_unknown(situation: SessionSituation) -> Argument | None:
    """A ShareFetch fails because of a topic id of the session that the broker does not know.

    Brokers add the ids of a ShareFetch to the session. Up to 4.3 every ShareFetch fails at unknown ids until they are
    forgotten. An id of zeros is the client's fault. Any other id may be of a deleted topic.
    """
    step = situation.step
    if not step.is_fetch:
        return None
    zero = next((listed.partition for listed in step.listed if listed.partition[0] == _ZERO), None)
    if zero is not None:
        return Argument(
            f"{step.story}; it lists a topic id of zeros", (step,), EXCHANGE, "unknown_topic", partition=zero
        )
    text = f"{step.story}; brokers answer this if they do not know a topic id of the session"
    return Argument(text, (step,), EXCHANGE, "unknown_topic", noted=True)


def not_served(situation: Unserved) -> Argument | None:
    """The broker does not know the partition, or not yet. From 4.4 on also: it does not know the topic.

    An id of zeros is the client's fault.
    """
    topic_id, index = situation.partition
    if situation.error == _UNKNOWN_TOPIC_OR_PARTITION:
        unknown, cause = f"partition {index}", "unknown_partition"
    elif situation.error == _UNKNOWN_TOPIC_ID:
        unknown, cause = f"a topic with the id {topic_id}", "unknown_topic"
    else:
        return None
    text = (
        f"{situation.step.here} was answered with an error: the broker does not know {unknown} "
        f"({situation.step.packets})"
    )
    return Argument(text, (situation.step,), EXCHANGE, cause, noted=topic_id != _ZERO, partition=situation.partition)


ROWS: Final = (
    Rule(
        number=71,
        code="TOPIC_ID_UNKNOWN",
        text="A request names a topic id or a partition that the broker does not know.",
        act="named a topic id or partition that the broker does not know",
        weight=45,
        must="A request names a topic by an id that exists in the cluster.",
        advice="Send Metadata again: the topic was deleted or created again. Put the old id into "
        "forgotten_topics_data, or open a new session: until then every ShareFetch fails, since Kafka 4.4 only "
        "that partition. An id of zeros was never looked up.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, topic id 0, accept 0-9 → 0, t[0] 100",
        right="ShareFetch epoch 0 → 0, offsets 0-9; ShareAcknowledge epoch 1, accept 0-9 → 0",
        provoked_by="Delete a topic that the client consumes, and create it again.",
        source="Kafka: KafkaApis",
        rests_on=(NO_CONNECTION, NO_ADMIN),
        causes=("unknown_topic", "unknown_partition"),
        verdicts=NOTES_TOO,
        machine=IN_FLIGHT,
        checks=(
            Check(topic_unknown, order=24, about=Acknowledging, reported_unproved=True),
            Check(fetched_topic_unknown, (INITIAL, SUBSEQUENT), (FAILED_LATER,), machine=SESSION, trigger=NOT_PLAIN),
            Check(not_served, about=Unserved, trigger=NOT_PLAIN),
        ),
    ),
)
