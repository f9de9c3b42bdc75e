"""Promises of kshark.analysis.rules.topics: topics and partitions that the broker does not know."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import ACCEPT, holding, refused
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import UNKNOWN_SERVER_ERROR, led_elsewhere, stranger
from tests.conversation import Conversation, note, unknown, violation

UNKNOWN_TOPIC_ID = 100
UNKNOWN_TOPIC_OR_PARTITION = 3
#: A topic id of zeros, which no topic has.
ZERO = "A" * 22


@promise
def a_missing_topic_is_acknowledged() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    asked = a.share_acknowledge(1, [(0, 0, ACCEPT)], topic="BAAAAAAAAAAAAAAAAAAABw").answered(
        acks={0: UNKNOWN_TOPIC_ID}
    )
    return talk, [violation("TOPIC_ID_UNKNOWN", asked, blame="client", cause="unknown_topic")]


@promise
def a_topic_was_deleted_meanwhile() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    return talk, [
        note("TOPIC_ID_UNKNOWN", refused(a, 1, (0, 9, ACCEPT), error=UNKNOWN_TOPIC_ID), cause="unknown_topic")
    ]


@promise
def an_answer_says_itself_that_the_topic_is_missing() -> Said:
    talk = Conversation()
    asked = refused(stranger(talk), 5, (0, 9, ACCEPT), error=UNKNOWN_TOPIC_ID)
    return talk, [unknown("TOPIC_ID_UNKNOWN", asked, because="resync", cause="unknown_topic")]


@promise
def a_topic_was_deleted_after_records_that_the_capture_lacks() -> Said:
    talk = Conversation()
    a = talk.member("a", joined=False)
    return talk, [
        note("TOPIC_ID_UNKNOWN", refused(a, 5, (0, 9, ACCEPT), error=UNKNOWN_TOPIC_ID), cause="unknown_topic")
    ]


@promise
def a_topic_is_fetched_whose_id_was_never_looked_up() -> Said:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0], topic=ZERO).answered(UNKNOWN_SERVER_ERROR)
    return talk, [violation("TOPIC_ID_UNKNOWN", fetch, blame="client", cause="unknown_topic")]


@promise
def a_missing_topic_is_fetched() -> Said:
    talk = Conversation()
    a = talk.member("a")
    fetches = [a.share_fetch(0, [0]).answered(UNKNOWN_SERVER_ERROR), a.share_fetch(1).answered(UNKNOWN_SERVER_ERROR)]
    return talk, [note("TOPIC_ID_UNKNOWN", fetch, cause="unknown_topic") for fetch in fetches]


@promise
def a_missing_partition_is_fetched() -> Said:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0]).answered(**led_elsewhere(error=UNKNOWN_TOPIC_OR_PARTITION))
    return talk, [note("TOPIC_ID_UNKNOWN", fetch, cause="unknown_partition")]


@promise
def a_missing_topic_fails_only_its_partition() -> Said:
    """Kafka 4.4 answers so."""
    talk = Conversation()
    a = talk.member("a")
    fetches = [a.share_fetch(epoch, [0][epoch:]).answered(**led_elsewhere(error=UNKNOWN_TOPIC_ID)) for epoch in (0, 1)]
    return talk, [note("TOPIC_ID_UNKNOWN", fetch, cause="unknown_topic") for fetch in fetches]
