"""Promises of kshark.analysis.rules.versions: versions that clients use, and that brokers support."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import (
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    asked_unoffered,
    broker_closes,
    opened,
    refused_version,
)
from tests.conversation import Conversation, note, unknown, violation


@promise
def a_version_that_is_not_advertised() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked_unoffered(connection)
    broker_closes(connection)
    end = len(talk.wire.packets) - 1
    return talk, [
        note("REQUEST_UNANSWERED", end, "broker_closed"),
        violation("VERSION_NOT_ADVERTISED", end, blame="client"),
    ]


@promise
def a_client_closes_after_a_version_that_is_not_advertised() -> Said:
    talk = Conversation()
    connection = talk.connection()
    asked_unoffered(connection)
    connection.close()
    end = len(talk.wire.packets) - 1
    return talk, [
        note("REQUEST_UNANSWERED", end, "client_closed"),
        unknown("VERSION_NOT_ADVERTISED", end, because="end_not_seen"),
    ]


@promise
def a_client_is_newer_than_its_broker() -> Said:
    talk = Conversation()
    connection = talk.connection(introduced=False)
    refusal = refused_version(connection)
    connection.api_versions("4.2")
    return talk, [note("APIVERSIONS_FALLBACK", refusal)]


@promise
def a_software_name_is_invalid() -> Said:
    talk = Conversation()
    asked = talk.connection(introduced=False).api_versions("4.2", "my client", error=INVALID_REQUEST)
    return talk, [violation("SOFTWARE_NAME_INVALID", asked.sent, blame="client")]


@promise
def early_access_share_groups_of_kafka_4_0() -> Said:
    talk = Conversation(release="4.0")
    a = talk.member("a")
    first = a.share_fetch(0, version=0).answered()
    a.share_fetch(1, version=0).answered()
    return talk, [note("EARLY_ACCESS_SHARE_API", first.sent)]


@promise
def share_groups_are_switched_off() -> Said:
    talk = Conversation()
    a = opened(talk)
    fetch, heartbeat = a.share_fetch(1).answered(UNSUPPORTED_VERSION), a.heartbeat(1).answered(UNSUPPORTED_VERSION)
    groups = {"group_ids": ["g"], "include_authorized_operations": False}
    described = a.connection.ask(77, "ShareGroupDescribe", 1, groups)
    described.answered(None, groups=[{"group_id": "g", "error_code": UNSUPPORTED_VERSION, "members": []}])
    return talk, [note("SHARE_FEATURE_OFF", one) for one in (fetch, heartbeat, described)]
