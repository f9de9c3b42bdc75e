"""Filters that a user of tshark types, on real captures: what passes is what the broker's own request log says
passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Run
from tests.shared import CAPTURES
from tests.witness.compare import ends_of, log_of

#: A line of the log, "request" or "response", and that body.
Says = Callable[[dict[str, Any], str, Any], bool]
#: Client, correlation id, API key, direction.
Which = list[tuple[str, int, int, str]]
#: APIs that only clients of these captures use, all of whose requests are in the log.
OF_CLIENTS = (76, 78, 79)


def every(name: str, body: Any) -> Iterator[Any]:
    """Every value of that name at any depth, those of an array one by one; nulls are none."""
    if isinstance(body, list):
        for each in body:
            yield from every(name, each)
    elif isinstance(body, dict):
        for key, value in body.items():
            if key == name and value is not None:
                yield from value if isinstance(value, list) else (value,)
            yield from every(name, value)


def header(name: str, value: Any) -> Says:
    return lambda line, kind, body: line["requestHeader"][name] == value


FILTERS: dict[str, tuple[str, str, Says]] = {
    "an API by name": ("adv-epochs", "kafka.api == ShareFetch", header("requestApiKey", 78)),
    "requests of a client": (
        "adv-members",
        'kafka.client_id == "A" && kafka.request',
        lambda line, kind, body: kind == "request" and line["requestHeader"]["clientId"] == "A",
    ),
    "an error by name": (
        "adv-epochs",
        "kafka.error_code == INVALID_SHARE_SESSION_EPOCH",
        lambda line, kind, body: kind == "response" and 123 in every("errorCode", body),
    ),
    "nothing succeeded": (
        "adv-epochs",
        "kafka.response and kafka.error_code != 0",
        lambda line, kind, body: (
            kind == "response" and any(every("errorCode", body)) and 0 not in every("errorCode", body)
        ),
    ),
    "not everything succeeded": (
        "adv-acks",
        "kafka.error_code any_ne 0",
        lambda line, kind, body: kind == "response" and any(code != 0 for code in every("errorCode", body)),
    ),
    "negative epochs": (
        "adv-epochs",
        "kafka.share_session_epoch lt 0",
        lambda line, kind, body: any(e < 0 for e in every("shareSessionEpoch", body)),
    ),
    "APIs by number": (
        "share-java-renew",
        "kafka.api_key in {76, 79} && !kafka.response",
        lambda line, kind, body: kind == "request" and line["requestHeader"]["requestApiKey"] != 78,
    ),
    "a field in arrays": (
        "adv-acks",
        "kafka.topics.partitions.acknowledgement_batches.first_offset >= 2",
        lambda line, kind, body: kind == "request" and any(offset >= 2 for offset in every("firstOffset", body)),
    ),
    "delivered again": (
        "share-java-implicit-4.2.1",
        "kafka.acquired_records.delivery_count > 1 || kafka.acquired_records.delivery_count in {100..200}",
        lambda line, kind, body: any(count > 1 for count in every("deliveryCount", body)),
    ),
    "what a broker says": (
        "adv-acks",
        'kafka.responses.partitions.error_message matches "offset|state"',
        lambda line, kind, body: any(
            "offset" in text.lower() or "state" in text.lower() for text in every("errorMessage", body)
        ),
    ),
    "a field that is there": (
        "adv-members",
        "(kafka.subscribed_topic_names or kafka.member_epoch < 0) and kafka.request",
        lambda line, kind, body: (
            kind == "request"
            and (any(every("subscribedTopicNames", body)) or any(e < 0 for e in every("memberEpoch", body)))
        ),
    ),
    "a connection": (
        "adv-epochs",
        "tcp.srcport == 51786 && kafka.correlation_id >= 30",
        lambda line, kind, body: (
            kind == "request" and ends_of(line)[0].endswith(":51786") and line["requestHeader"]["correlationId"] >= 30
        ),
    ),
    "renewals": (
        "share-java-renew",
        "kafka.is_renew_ack == true",
        lambda line, kind, body: any(every("isRenewAck", body)),
    ),
    "a member's requests and their answers": (
        "share-restart",
        "kafka.member_id == qFBkrh_GScehAq2nhVdyJg",
        lambda line, kind, body: line["request"]["memberId"] == "qFBkrh_GScehAq2nhVdyJg",
    ),
    "answers of a group": (
        "adv-members",
        'kafka.response && kafka.group_id matches "^g"',
        lambda line, kind, body: kind == "response" and str(line["request"]["groupId"]).startswith("g"),
    ),
    "not in a set": (
        "adv-epochs",
        "kafka.share_session_epoch not in {0 1..5}",
        lambda line, kind, body: (
            any(every("shareSessionEpoch", body)) and not set(every("shareSessionEpoch", body)) & {0, 1, 2, 3, 4, 5}
        ),
    ),
}


def logged(capture: str, says: Says) -> Which:
    """What passes by the log."""
    return sorted(
        (ends_of(line)[0], line["requestHeader"]["correlationId"], line["requestHeader"]["requestApiKey"], kind)
        for line in log_of(CAPTURES / f"{capture}.pcap")
        for kind in ("request", "response")
        if line["requestHeader"]["requestApiKey"] in OF_CLIENTS and line.get(kind) and says(line, kind, line[kind])
    )


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize(("capture", "text", "says"), FILTERS.values(), ids=list(FILTERS))
def test_what_passes_is_what_the_broker_logged(kshark: Run, capture: str, text: str, says: Says) -> None:
    of_clients = f"({text}) && kafka.api_key in {{{' '.join(map(str, OF_CLIENTS))}}}"
    passed = kshark("read", CAPTURES / f"{capture}.pcap", "-T", "json", "--no-records", "-Y", of_clients).json
    expected = logged(capture, says)
    assert expected
    assert (
        sorted((line["client"], line["correlation_id"], line["api_key"], line["kind"]) for line in passed) == expected
    )


def test_a_topic_is_found_by_name_where_messages_carry_only_its_id(kshark: Run) -> None:
    """The broker's log says which ids the messages have; Metadata and CreateTopics say that `orders` is one of them."""
    path = CAPTURES / "share-java-explicit.pcap"
    [orders] = {
        topic["topic_id"]
        for message in kshark("read", path, "-Y", "kafka.api == Metadata && kafka.response", "-T", "json").json
        for topic in message["body"]["topics"]
        if topic["name"] == "orders"
    }
    by_id = kshark("read", path, "-Y", f"kafka.api in {{ShareFetch ShareAcknowledge}} && kafka.topic_id == {orders}")
    by_name = kshark("read", path, "-Y", "kafka.api in {ShareFetch ShareAcknowledge} && kafka.topic == orders")
    assert len(by_name.lines) > 100
    assert by_name.out == by_id.out
    assert kshark(
        "read", path, "-Y", "kafka.topic == orders", "-T", "fields", "-e", "kafka.topic", "-c", "1"
    ).lines == ["orders"]


@pytest.mark.parametrize("command", ["read", "check", "sessions", "groups", "stats", "report"])
def test_every_command_says_that_no_message_has_a_group(kshark: Run, command: str, tmp_path: Path) -> None:
    folder = ("-o", tmp_path / "report") if command == "report" else ()
    done = kshark(command, CAPTURES / "adv-acks.pcap", "-Y", "kafka.group_id == g11", *folder)
    assert "kshark: no message has group g11; messages have g, g2\n" in done.err
    assert done.code in (0, 1)


def test_of_messages_that_were_not_read_nothing_is_said(kshark: Run) -> None:
    path = CAPTURES / "adv-acks.pcap"
    assert "no message" not in kshark("read", path, "-c", "1", "-Y", "kafka.request || kafka.group_id == g11").err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_capture_has_its_own_sentence(kshark: Run, jobs: str) -> None:
    files = CAPTURES / "adv-acks.pcap", CAPTURES / "share-java-explicit.pcap"
    done = kshark("read", "-q", "--each", "--jobs", jobs, *files, "-Y", "kafka.topic == orders")
    assert [line for line in done.err.splitlines() if "no message" in line] == [
        "kshark: no message has topic orders; messages have t, __consumer_offsets, __share_group_state and 2 more; "
        "of 7 topic ids no earlier packet shows the name"
    ]
