"""Where a field lies in a body."""

from __future__ import annotations

import kshark
from kshark.codec.paths import paths, values
from kshark.registry import Registry


def test_paths_name_every_field_of_a_version_in_wire_order() -> None:
    api = Registry().api(79)
    assert api is not None
    assert [str(path) for path in paths(api.request.root, 1)] == [
        "group_id",
        "member_id",
        "share_session_epoch",
        "topics",
        "topics.topic_id",
        "topics.partitions",
        "topics.partitions.partition_index",
        "topics.partitions.acknowledgement_batches",
        "topics.partitions.acknowledgement_batches.first_offset",
        "topics.partitions.acknowledgement_batches.last_offset",
        "topics.partitions.acknowledgement_batches.acknowledge_types",
    ]
    assert "is_renew_ack" in map(str, paths(api.request.root, 2))


def test_tagged_fields_come_last() -> None:
    api = Registry().api(1)
    assert api is not None
    outside = [path.names[0] for path in paths(api.request.root, 17) if len(path.names) == 1]
    assert outside[-2:] == ["cluster_id", "replica_state"]


def test_values_reaches_into_arrays_of_arrays() -> None:
    body = {"a": [{"b": [1, 2]}, {"b": []}, {"b": [3]}], "c": None, "d": {"e": 5}}
    assert list(values(body, ("a", "b"))) == [1, 2, 3]
    assert list(values(body, ("d", "e"))) == [5]
    assert list(values(body, ("c",))) == [None]
    assert list(values(body, ("c", "x"))) == []
    assert list(values(body, ("nowhere",))) == []


def test_values_are_those_of_the_body() -> None:
    fields = {
        "error_code": 0,
        "responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [{"partition_index": 4, "error_code": 6}]}],
    }
    body = kshark.decode(78, 1, "response", kshark.encode(78, 1, "response", fields))
    assert list(values(body, ("responses", "partitions", "error_code"))) == [6]
