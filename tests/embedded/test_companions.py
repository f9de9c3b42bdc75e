"""What lies inside bytes is told by data: who says which structure it is, who its version, and what happens when nobody
does."""

from __future__ import annotations

from struct import pack

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark import decode, encode
from kshark.anomaly import CATALOGUE
from kshark.codec import compile_writer
from kshark.embedded.companions import Companion, companions
from kshark.records import RecordsField
from kshark.schema import Layout
from kshark_dissectors.embedded import (
    cluster_metadata,
    cluster_topics,
    connect_protocol,
    consumer_offsets,
    share_group_records,
    share_group_state,
)
from kshark_dissectors.embedded.consumer_protocol import (
    ASSIGNMENT,
    COOPERATIVE_STICKY_USER_DATA,
    STICKY_USER_DATA,
    SUBSCRIPTION,
)
from kshark_dissectors.embedded.control_records import LEADER_CHANGE
from kshark_dissectors.embedded.places import LOGS, PLACES
from kshark_dissectors.embedded.principal import PRINCIPAL
from tests.embedding import batch_of, body, fetched, found, numbered, prefixed
from tests.examples import as_many
from tests.records.opening import opened

JOIN = {"group_id": "g", "member_id": "m", "session_timeout_ms": 1}
T1 = {"topic": "t1", "partitions": [0, 2]}


def subscription(version: int = 3, **data):
    return prefixed(SUBSCRIPTION, version, topics=["t1"], **data)


# -- group protocols


def test_a_member_offers_a_subscription_for_each_assignor():
    protocols = [{"name": "range", "metadata": subscription()}, {"name": "roundrobin", "metadata": subscription(0)}]
    one, two = found(11, 9, "request", **JOIN, protocol_type="consumer", protocols=protocols)
    assert (one.name, one.owner.name, one.code) == ("metadata_decoded", "range", None)
    assert one.value == {
        "name": "ConsumerProtocolSubscription",
        "version": 3,
        "data": {"topics": ["t1"], "user_data": None, "owned_partitions": [], "generation_id": -1, "rack_id": None},
    }
    assert two.value["data"] == {"topics": ["t1"], "user_data": None}


def test_the_protocol_type_decides_between_consumers_and_connect():
    worker = prefixed(connect_protocol.METADATA, 2, url="http://w:8083/", config_offset=7)
    (one,) = found(
        11, 9, "request", **JOIN, protocol_type="connect", protocols=[{"name": "sessioned", "metadata": worker}]
    )
    assert one.value["data"] == {"url": "http://w:8083/", "config_offset": 7, "allocation": None}
    assert (
        found(11, 9, "request", **JOIN, protocol_type="sr", protocols=[{"name": "v0", "metadata": b'{"host":"r"}'}])
        == []
    )


def test_a_connect_worker_says_what_it_runs():
    tasks = [{"connector": "files", "tasks": [-1, 0]}]
    holds = prefixed(connect_protocol.ASSIGNMENT, 1, leader="w", leader_url="u", assignment=tasks, revoked=[])
    worker = prefixed(connect_protocol.METADATA, 1, url="u", allocation=holds)
    (one,) = found(
        11, 9, "request", **JOIN, protocol_type="connect", protocols=[{"name": "compatible", "metadata": worker}]
    )
    inner = one.value["data"]["allocation_decoded"]
    assert (inner["name"], inner["version"], inner["data"]["assignment"]) == ("ConnectAssignment", 1, tasks)


def test_an_old_answer_without_protocol_type_is_read_by_its_requests():
    members = [{"member_id": "m", "metadata": subscription(1)}]
    request = body(11, 5, "request", **JOIN, protocol_type="consumer")
    (one,) = found(11, 5, "response", members=members, request=request)
    assert one.value["version"] == 1
    assert (
        found(11, 5, "response", members=members, request=body(11, 5, "request", **JOIN, protocol_type="other")) == []
    )


def test_where_nobody_tells_the_protocol_what_fits_to_the_end_is_taken():
    holds = prefixed(ASSIGNMENT, 0, assigned_partitions=[T1])
    (one,) = found(14, 2, "response", assignment=holds)
    assert one.value["data"]["assigned_partitions"] == [T1]
    leads = prefixed(connect_protocol.ASSIGNMENT, 0, leader="w", leader_url="u", assignment=[])
    (two,) = found(14, 2, "response", assignment=leads)
    assert two.value["name"] == "ConnectAssignment"
    assert found(14, 2, "response", assignment=holds[:-1]) == []
    assert found(14, 2, "response", assignment=b"") == []


@pytest.mark.parametrize(
    ("assignor", "layout", "version", "data"),
    [
        ("sticky", STICKY_USER_DATA, 0, {"previous_assignment": [T1]}),
        ("sticky", STICKY_USER_DATA, 1, {"previous_assignment": [T1], "generation": 4}),
        ("cooperative-sticky", COOPERATIVE_STICKY_USER_DATA, 0, {"generation": 4}),
    ],
)
def test_sticky_assignors_tell_what_a_member_had(assignor: str, layout: Layout, version: int, data):
    offer = subscription(1, user_data=compile_writer(layout, version)(data))
    (asked,) = found(
        11, 9, "request", **JOIN, protocol_type="consumer", protocols=[{"name": assignor, "metadata": offer}]
    )
    (told,) = found(
        11,
        9,
        "response",
        protocol_type="consumer",
        protocol_name=assignor,
        members=[{"member_id": "m", "metadata": offer}],
    )
    for one in (asked, told):
        assert one.value["data"]["user_data_decoded"] == {"name": layout.name, "version": version, "data": data}


def test_user_data_of_an_assignor_of_ones_own_stays_bytes():
    offer = subscription(user_data=b"\x00\x00\x00\x01mine")
    for assignor in ("mine", "sticky"):
        (one,) = found(
            11, 9, "request", **JOIN, protocol_type="consumer", protocols=[{"name": assignor, "metadata": offer}]
        )
        assert "user_data_decoded" not in one.value["data"]
        assert one.code is None


def test_described_groups_show_what_their_members_said():
    group = {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [
            {"member_id": "m", "member_metadata": subscription(), "member_assignment": prefixed(ASSIGNMENT, 3)}
        ],
    }
    assert [one.name for one in found(15, 5, "response", groups=[group])] == [
        "member_metadata_decoded",
        "member_assignment_decoded",
    ]


def test_a_subscription_newer_than_any_is_read_as_the_newest_and_marked():
    newer = pack(">h", 9) + subscription()[2:] + b"more"
    (one,) = found(11, 9, "request", **JOIN, protocol_type="consumer", protocols=[{"name": "range", "metadata": newer}])
    assert (one.code, one.value["version"], one.value["data"]["topics"]) == ("VERSION_UNKNOWN", 9, ["t1"])


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_subscription_cut_short_shows_what_was_there(cut: int):
    (one,) = found(
        11,
        9,
        "request",
        **JOIN,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": subscription()[:-cut]}],
    )
    assert one.code == "EMBEDDED_INVALID"
    assert (one.value["name"], one.value["data"].get("topics", [])) == (
        "ConsumerProtocolSubscription",
        ["t1"] if cut < 15 else [],
    )


def test_who_sent_a_forwarded_request_is_told_unless_a_builder_of_ones_own_wrote_it():
    told = prefixed(PRINCIPAL, 0, type="User", name="alice", token_authenticated=True)
    (one,) = found(58, 0, "request", request_data=b"", request_principal=told, client_host_address=b"")
    assert one.value["data"]["name"] == "alice"
    assert found(58, 0, "request", request_data=b"", request_principal=b"whoever", client_host_address=b"") == []


# -- records


def test_a_committed_offset_and_its_deletion():
    key = pack(">h", 1) + compile_writer(consumer_offsets.OFFSET_COMMIT_KEY, 0)(
        {"group": "g", "topic": "t", "partition": 3}
    )
    value = prefixed(consumer_offsets.OFFSET_COMMIT_VALUE, 3, offset=70, leader_epoch=2)
    of_key, of_value, of_tombstone = fetched("__consumer_offsets", (key, value), (key, None))
    assert of_key.value == {"name": "OffsetCommitKey", "type": 1, "data": {"group": "g", "topic": "t", "partition": 3}}
    assert (of_value.value["type"], of_value.value["version"], of_value.value["data"]["offset"]) == (1, 3, 70)
    assert (of_tombstone.name, of_tombstone.owner.offset) == ("key_decoded", 1)


def test_a_stored_group_shows_its_members_subscriptions():
    key = pack(">h", 2) + compile_writer(consumer_offsets.GROUP_METADATA_KEY, 0)({"group": "g"})
    sticky = compile_writer(STICKY_USER_DATA, 1)({"previous_assignment": [T1], "generation": 1})
    member = {
        "subscription": subscription(1, user_data=sticky),
        "assignment": prefixed(ASSIGNMENT, 1, assigned_partitions=[T1]),
    }
    value = prefixed(
        consumer_offsets.GROUP_METADATA_VALUE, 3, protocol_type="consumer", protocol="sticky", members=[member]
    )
    _, of_value = fetched("__consumer_offsets", (key, value))
    (shown,) = of_value.value["data"]["members"]
    assert shown["assignment_decoded"]["data"]["assigned_partitions"] == [T1]
    assert shown["subscription_decoded"]["data"]["user_data_decoded"]["data"]["generation"] == 1


def test_an_internal_topic_is_known_by_its_id_too():
    value = numbered(2, cluster_topics.TOPIC, name="orders", topic_id="5LAc5cvmTxGiXZ9i-6xc0A")
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": batch_of((None, value))}
    for topic_id, names in (
        ("AAAAAAAAAAAAAAAAAAAAAQ", {}),
        ("PppEeXGayIjpDmW913WfeQ", {"PppEeXGayIjpDmW913WfeQ": "__cluster_metadata"}),
    ):
        (one,) = found(1, 13, "response", names=names, responses=[{"topic_id": topic_id, "partitions": [partition]}])
        assert one.value["data"]["name"] == "orders"
    assert found(1, 13, "response", responses=[{"topic_id": "PppEeXGayIjpDmW913WfeQ", "partitions": [partition]}]) == []


def test_records_of_users_are_left_alone():
    assert fetched("orders", (b"\x00\x01", b"\x00\x01"), (None, None)) == []


def test_control_records_are_read_in_any_topic():
    ended = (pack(">hh", 0, 1), pack(">hi", 0, 12))
    change = compile_writer(LEADER_CHANGE, 0)(
        {"version": 0, "leader_id": 2, "voters": [{"voter_id": 2}], "granting_voters": []}
    )
    commit, leader = fetched("orders", ended, (pack(">hh", 0, 2), change), control=True)
    assert commit.value == {"name": "EndTxnMarker", "type": 1, "version": 0, "data": {"coordinator_epoch": 12}}
    assert leader.value["data"]["leader_id"] == 2


def test_the_two_layouts_of_share_state_are_told_apart_by_their_length():
    key = pack(">h", 1) + compile_writer(share_group_state.SHARE_UPDATE_KEY, 0)(
        {"group_id": "g", "topic_id": "5LAc5cvmTxGiXZ9i-6xc0A"}
    )
    batch = pack(">qqbhb", 5, 9, 2, 1, 0)
    released = pack(">hiiqb", 0, 3, 7, 5, 2) + batch + b"\0"
    preview = pack(">hHiqb", 0, 3, 7, 5, 2) + batch + b"\0"
    *_, now = fetched("__share_group_state", (key, released))
    *_, before = fetched("__share_group_state", (key, preview))
    assert (now.code, before.code) == (None, "LAYOUT_DRIFT")
    for one in (now, before):
        data = one.value["data"]
        assert (data["snapshot_epoch"], data["leader_epoch"], data["start_offset"]) == (3, 7, 5)
        assert data["state_batches"] == [
            {"first_offset": 5, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
        ]


@pytest.mark.parametrize(
    "number", [number for number, (_, value) in share_group_records.TYPES.items() if value.layout.older]
)
def test_what_4_0_stored_of_share_groups_is_read(number: int):
    key_layout, value = share_group_records.TYPES[number]
    key = pack(">h", number) + compile_writer(key_layout, 0)({"group_id": "g"})
    older = Layout(value.layout.name, value.layout.versions, value.layout.flexible, value.layout.older[0])
    *_, one = fetched("__consumer_offsets", (key, pack(">h", 0) + compile_writer(older, 0)({})))
    assert (one.code, set(one.value["data"])) == ("LAYOUT_DRIFT", {field.name for field in older.root.fields})


def test_a_metadata_record_has_its_type_and_version_before_it():
    (one,) = fetched(
        "__cluster_metadata",
        (None, numbered(12, cluster_metadata.FEATURE_LEVEL, name="share.version", feature_level=1)),
    )
    assert one.value == {
        "name": "FeatureLevelRecord",
        "type": 12,
        "version": 0,
        "data": {"name": "share.version", "feature_level": 1},
    }


@pytest.mark.parametrize(
    ("topic", "key", "value", "code"),
    [
        ("__consumer_offsets", pack(">h", 24), b"\0\0", "EMBEDDED_UNKNOWN"),
        ("__consumer_offsets", b"\0", b"\0\0", "EMBEDDED_INVALID"),
        ("__consumer_offsets", None, b"\0\0", "EMBEDDED_INVALID"),
        ("__cluster_metadata", None, b"\1\6\0", "EMBEDDED_UNKNOWN"),
        ("__cluster_metadata", None, b"\1\x80", "EMBEDDED_INVALID"),
        ("__cluster_metadata", None, b"\1\2\7\1\0", "VERSION_UNKNOWN"),
        ("__transaction_state", b"\0\0\0\1t", b"\0", "EMBEDDED_INVALID"),
    ],
)
def test_records_that_nobody_can_read_say_so(topic: str, key, value, code: str):
    assert [one.code for one in fetched(topic, (key, value)) if one.code] == [code]


def test_without_payload_there_is_nothing_to_open():
    field, _ = opened(batch_of((pack(">h", 1), b"\0\0")), payload=False)
    assert isinstance(field, RecordsField)
    answer = {"responses": [{"topic": "__consumer_offsets", "partitions": [{"records": field}]}]}
    assert list(companions(PLACES[1, "response"], answer)) == []


# -- metrics, and everything at once


def test_metrics_are_decompressed_by_the_codec_that_the_request_names():
    metrics = bytes.fromhex("0a0a12081206" + "0a0161" + "1a016d")  # one metric: name a, unit m
    packs = {
        0: bytes,
        1: cramjam.gzip.compress,
        2: cramjam.snappy.compress_raw,
        3: cramjam.lz4.compress,
        4: cramjam.zstd.compress,
    }
    for codec, pack_with in packs.items():
        sent = {"compression_type": codec, "metrics": bytes(pack_with(metrics))}
        (one,) = companions(PLACES[72, "request"], sent)
        assert one.value["data"]["resource_metrics"][0]["scope_metrics"][0]["metrics"] == [{"name": "a", "unit": "m"}]
    for codec, code in ((4, "DECOMPRESSION_FAILED"), (9, "CODEC_INVALID"), (0, "EMBEDDED_INVALID")):
        (one,) = companions(PLACES[72, "request"], {"compression_type": codec, "metrics": b"\x0a\x7fno"})
        assert one.code == code


def test_a_bomb_of_metrics_is_not_opened():
    bomb = bytes(cramjam.zstd.compress(bytes(64 << 20)))
    (one,) = companions(PLACES[72, "request"], {"compression_type": 4, "metrics": bomb})
    assert (one.value, one.code) == (None, "DECOMPRESSION_LIMIT")


def test_companions_stand_beside_what_they_explain():
    sent = encode(
        11,
        9,
        "request",
        {**JOIN, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": subscription()}]},
    )
    plain = decode(11, 9, "request", sent)
    for companion in companions(PLACES[11, "request"], plain):
        companion.attach()
    (protocol,) = plain["protocols"]
    assert list(protocol) == ["name", "metadata", "metadata_decoded"]


WRONG = {
    "EMBEDDED_INVALID",
    "EMBEDDED_UNKNOWN",
    "VERSION_UNKNOWN",
    "LAYOUT_DRIFT",
    "DECOMPRESSION_FAILED",
    "DECOMPRESSION_LIMIT",
}
assert CATALOGUE.keys() >= WRONG


def assert_a_value_or_a_code(one: Companion) -> None:
    if one.code is None:
        assert one.value is not None
    else:
        assert one.code in WRONG


@given(
    st.sampled_from(sorted(LOGS)), st.binary(max_size=60) | st.none(), st.binary(max_size=90) | st.none(), st.booleans()
)
@settings(max_examples=as_many(200))
def test_whatever_a_record_holds_gives_a_value_or_a_code(topic: str, key, value, control: bool):
    for one in fetched(topic, (key, value), control=control):
        assert_a_value_or_a_code(one)


@given(
    st.sampled_from(["consumer", "connect", ""]),
    st.sampled_from(["range", "sticky", "cooperative-sticky"]),
    st.binary(max_size=80),
)
@settings(max_examples=as_many(100))
def test_whatever_a_member_says_gives_a_value_or_a_code(kind: str, assignor: str, data: bytes):
    offer = {"protocol_type": kind, "protocols": [{"name": assignor, "metadata": data}]}
    for one in companions(PLACES[11, "request"], offer):
        assert_a_value_or_a_code(one)
    for codec in range(5):
        for one in companions(PLACES[72, "request"], {"compression_type": codec, "metrics": data}):
            assert_a_value_or_a_code(one)
