"""Single bodies: `kshark.decode` and `kshark.encode`."""

from __future__ import annotations

import pytest

import kshark
from kshark.registry import Registry
from kshark.schema import api, int8, struct

HEARTBEAT = {
    "group_id": "g",
    "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
    "member_epoch": -1,
    "rack_id": None,
    "subscribed_topic_names": ["t"],
}


def test_there_and_back() -> None:
    data = kshark.encode(76, 1, "request", HEARTBEAT)
    assert kshark.decode(76, 1, "request", data) == HEARTBEAT
    assert kshark.decode(76, 1, "request", memoryview(data)) == HEARTBEAT  # type: ignore[arg-type]


def test_an_api_may_be_named() -> None:
    data = kshark.encode("ShareGroupHeartbeat", 1, "request", HEARTBEAT)
    assert data == kshark.encode(76, 1, "request", HEARTBEAT)
    assert kshark.decode("ShareGroupHeartbeat", 1, "request", data) == HEARTBEAT
    with pytest.raises(kshark.UsageError, match='no API "ShareHeartbeat"'):
        kshark.decode("ShareHeartbeat", 1, "request", data)


def test_what_was_decoded_of_bytes_is_passed_over() -> None:
    body = {"group_id": "g", "protocols": [{"name": "range", "metadata": b"\0\1"}]}
    data = kshark.encode(11, 9, "request", body)
    body["protocols"][0]["metadata_decoded"] = {"name": "ConsumerProtocolSubscription", "data": {}}
    assert kshark.encode(11, 9, "request", body) == data


def test_unknown_tags_go_there_and_back() -> None:
    value = {**HEARTBEAT, "_tagged": {"7": b"\1\2"}}
    assert kshark.decode(76, 1, "request", kshark.encode(76, 1, "request", value)) == value


def test_records_and_bytes_stay_bytes() -> None:
    partition = {"index": 0, "records": b"anything"}
    value = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5,
        "topic_data": [{"name": "t", "partition_data": [partition]}],
    }
    assert kshark.decode(0, 9, "request", kshark.encode(0, 9, "request", value)) == value


@pytest.mark.parametrize("leader_epoch", [{}, {"leader_epoch": 3}])
def test_both_layouts_of_a_version_go_there_and_back(leader_epoch: dict[str, int]) -> None:
    partition = {
        "partition": 0,
        "error_code": 0,
        "error_message": None,
        "state_epoch": 1,
        **leader_epoch,
        "start_offset": 5,
    }
    value = {"results": [{"topic_id": "A" * 22, "partitions": [partition]}]}
    data = kshark.encode(87, 0, "response", value)
    assert kshark.decode(87, 0, "response", data) == value


def test_an_answer_that_falls_back_is_read_in_the_version_it_falls_back_to() -> None:
    refused = {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    data = kshark.encode(18, 5, "response", refused)
    assert data == kshark.encode(18, 0, "response", refused)
    assert kshark.decode(18, 5, "response", data) == refused


def test_a_body_that_does_not_fit_says_where() -> None:
    data = kshark.encode(76, 1, "request", HEARTBEAT)
    with pytest.raises(kshark.DecodeError) as cut:
        kshark.decode(76, 1, "request", data[:-2])
    assert (cut.value.code, cut.value.path, cut.value.offset) == (
        "LENGTH_INVALID",
        "subscribed_topic_names[0]",
        len(data) - 3,
    )
    with pytest.raises(kshark.DecodeError) as long:
        kshark.decode(76, 1, "request", data + b"\0")
    assert (long.value.code, long.value.offset) == ("TRAILING_BYTES", len(data))
    assert str(long.value) == f"TRAILING_BYTES at byte {len(data)}, field (none): 1 bytes after the body"


def test_a_value_that_does_not_fit_says_where() -> None:
    with pytest.raises(kshark.EncodeError) as refused:
        kshark.encode(76, 1, "request", {**HEARTBEAT, "subscribed_topic_names": ["a", 5]})
    assert refused.value.path == "subscribed_topic_names[1]"
    with pytest.raises(kshark.EncodeError, match="expects a dict"):
        kshark.encode(76, 1, "request", None)  # type: ignore[arg-type]


def test_apis_versions_and_directions_nobody_knows() -> None:
    for key, version, kind, complaint in [
        (9999, 0, "request", "no API 9999 in any Kafka release"),
        (78, 9, "request", "ShareFetch has versions 0-2, not 9"),
        (78, 1, "question", "a message is a request or a response, not 'question'"),
    ]:
        with pytest.raises(kshark.UsageError, match=complaint):
            kshark.decode(key, version, kind, b"")  # type: ignore[arg-type]


def test_a_registry_of_ones_own() -> None:
    registry = Registry(installed=False)
    registry.add(
        api(30000, "Example", versions="0", flexible="none", request=struct(int8("a")), response=struct()), "here"
    )
    assert kshark.decode(30000, 0, "request", b"\5", registry=registry) == {"a": 5}
    assert kshark.encode(30000, 0, "request", {"a": 5}, registry=registry) == b"\5"
