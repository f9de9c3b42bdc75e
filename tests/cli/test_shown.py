"""What bytes hold, names of ids and enumerations, and APIs of one's own: as commands show them, and only where they are
asked."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack

import pytest

import kshark as face
from kshark import encode
from kshark.cli import read
from kshark.cli.parser import Parser
from kshark.pipeline import Options
from kshark_dissectors.embedded.consumer_protocol import SUBSCRIPTION
from tests.cli.command import Run
from tests.cli.incident import written
from tests.embedding import exchange, prefixed
from tests.packets import Tcp, Wire

ORDERS = "5LAc5cvmTxGiXZ9i-6xc0A"
OFFER = prefixed(SUBSCRIPTION, 1, topics=["orders"])


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A member joins, the capture learns a topic's name, a share consumer fetches it, ACLs are described."""
    wire = Wire()
    tcp = Tcp(wire).open()
    asked = {
        "group_id": "g",
        "member_id": "m",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": OFFER}],
    }
    exchange(tcp, 11, 9, asked, {"member_id": "m"})
    fetch = {
        "group_id": "sg",
        "share_session_epoch": 1,
        "topics": [{"topic_id": ORDERS, "partitions": [{"partition_index": 3}]}],
    }
    exchange(tcp, 78, 1, fetch, {})
    exchange(
        tcp,
        3,
        12,
        {"topics": None},
        {"topics": [{"name": "orders", "topic_id": ORDERS, "topic_authorized_operations": 264}]},
    )
    exchange(tcp, 78, 1, fetch, {})
    acl = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    resource = {"resource_type": 2, "resource_name": "orders", "pattern_type": 4, "acls": [acl]}
    exchange(tcp, 29, 3, {"resource_type_filter": 1, "operation": 1}, {"resources": [resource]})
    return written(tmp_path, wire.packets)


def test_json_has_it_beside_the_bytes(kshark: Run, capture: Path) -> None:
    (protocol,) = kshark("read", capture, "-T", "json").json[0]["body"]["protocols"]
    assert list(protocol) == ["name", "metadata", "metadata_decoded"]
    assert protocol["metadata_decoded"]["data"]["topics"] == ["orders"]


def test_json_keeps_ids_as_they_are(kshark: Run, capture: Path) -> None:
    assert '"orders"' not in json.dumps(kshark("read", capture, "-T", "json").json[6]["body"])


def test_a_tree_has_it_below_the_size_of_the_bytes(kshark: Run, capture: Path) -> None:
    lines = kshark("read", capture, "-V").lines
    at = lines.index(f"      metadata: {len(OFFER)} B")
    assert lines[at + 1 : at + 4] == [
        "      metadata_decoded: ConsumerProtocolSubscription v1",
        '        topics: ["orders"]',
        "        user_data: null",
    ]


def test_topics_have_their_names_from_where_the_capture_told_them(kshark: Run, capture: Path) -> None:
    fetches = [line for line in kshark("read", capture).lines if "ShareFetch v1" in line and "→" in line]
    assert [f"{name}[3]" in line for name, line in zip((ORDERS, "orders"), fetches, strict=True)] == [True, True]
    shown = [line for line in kshark("read", capture, "-V").lines if ORDERS in line]
    assert shown == [
        f"    - topic_id: {ORDERS}",
        f"      topic_id: {ORDERS}",  # the Metadata answer itself: the name stands above it
        f"    - topic_id: {ORDERS} orders",
    ]


def test_each_capture_learns_its_own_names(kshark: Run, capture: Path) -> None:
    lines = kshark("read", "--each", capture, capture).lines
    fetches = [line for line in lines if "ShareFetch v1" in line and "→" in line]
    assert ["orders[3]" in line for line in fetches] == [False, True, False, True]


def test_numbers_have_their_names(kshark: Run, capture: Path) -> None:
    text = kshark("read", capture, "-V").out
    for shown in (
        "resource_type_filter: 1 ANY",
        "resource_type: 2 TOPIC",
        "pattern_type: 4 PREFIXED",
        "operation: 3 READ",
        "permission_type: 3 ALLOW",
        "topic_authorized_operations: 264 READ, DESCRIBE",
    ):
        assert shown in text


def test_a_field_may_lie_behind_bytes(kshark: Run, capture: Path) -> None:
    done = kshark(
        "read", capture, "-c", "1", "-T", "fields", "-e", "kafka.metadata_decoded.data.topics", "-e", "kafka.metadata"
    )
    assert done.out == "orders\tAAEAAAABAAZvcmRlcnP/////AAAAAA==\n"
    assert kshark("read", capture, "-T", "fields", "-e", "kafka.group_id_decoded").code == 2


def asked(*words: str) -> Options:
    parser = Parser("read", "reads", ())
    read.arguments(parser)
    return read.options(parser.parse([*words, "x.pcap"]))


def test_nothing_is_opened_that_nobody_looks_at() -> None:
    assert asked("-T", "json").embedded
    assert asked("-V").embedded
    assert not asked("-q").embedded
    assert not asked("-T", "fields", "-e", "kafka.group_id").embedded
    assert asked("-T", "fields", "-e", "kafka.metadata_decoded").embedded


# -- one message


def test_decode_opens_bytes_too(kshark: Run, tmp_path: Path) -> None:
    path = tmp_path / "join"
    body = {"group_id": "g", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": OFFER}]}
    path.write_bytes(encode(11, 9, "request", body))
    (told,) = kshark("decode", "JoinGroup", 9, "request", path).json
    assert told["protocols"][0]["metadata_decoded"]["name"] == "ConsumerProtocolSubscription"
    path.write_bytes(encode(11, 9, "request", {**body, "protocols": [{"name": "range", "metadata": OFFER[:-3]}]}))
    done = kshark("decode", "JoinGroup", 9, "request", path)
    assert done.code == 0
    assert done.err.startswith("kshark: EMBEDDED_INVALID, field metadata_decoded: ConsumerProtocolSubscription.")


def test_the_answer_in_an_envelope_needs_its_request(kshark: Run, tmp_path: Path) -> None:
    path = tmp_path / "envelope"
    path.write_bytes(encode(58, 0, "response", {"response_data": b"\0\0\0\1\0"}))
    done = kshark("decode", "Envelope", 0, "response", path)
    assert (done.json, done.err) == ([{"response_data": "AAAAAQA=", "error_code": 0}], "")


# -- APIs of one's own

OWN = """
from kshark.schema import api, int32, string, struct

DISSECTOR = api(
    9001,
    "OurQuota",
    versions="0-1",
    flexible="1+",
    request=struct(string("tenant")),
    response=struct(int32("left", versions="1+")),
)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "our_quota.py"
    path.write_text(OWN)
    return path


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A connection that speaks an API no release of Kafka has."""
    wire = Wire()
    tcp = Tcp(wire).open()
    exchange(tcp, 18, 0, {}, {"api_keys": []})
    frame = pack(">hhih", 9001, 1, 2, -1) + b"\0" + b"\x05acme" + b"\0"
    tcp.client(pack(">i", len(frame)) + frame)
    frame = pack(">i", 2) + b"\0" + pack(">i", 70) + b"\0"
    tcp.broker(pack(">i", len(frame)) + frame)
    return written(tmp_path, wire.packets)


def test_a_dissector_of_ones_own_reads_a_private_api(kshark: Run, own: Path, private: Path) -> None:
    *_, asked, answer = kshark("read", private, "--dissector", own, "-T", "json").json
    assert (asked["api"], asked["body"]) == ("OurQuota", {"tenant": "acme"})
    assert answer["body"] == {"left": 70}
    *_, asked, _ = kshark("read", private, "-T", "json").json
    assert (asked["api_key"], asked["weird"]) == (9001, ["UNKNOWN_API"])


def test_so_does_the_python_face(own: Path, private: Path) -> None:
    *_, asked, answer = face.read(private, dissectors=[own])
    assert (asked.api, asked.body, answer.body) == ("OurQuota", {"tenant": "acme"}, {"left": 70})


@pytest.mark.parametrize(
    "command", [["check"], ["sessions"], ["stats"], ["explain", "OurQuota"], ["decode", "OurQuota", "0", "request"]]
)
def test_every_command_takes_it(kshark: Run, own: Path, private: Path, tmp_path: Path, command: list[str]) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\0\4acme")
    name, *words = command
    file = {"explain": [], "decode": [body]}.get(name, [private])
    assert kshark(name, *words, *file, "--dissector", own).code == 0


def test_it_is_exported_and_explained(kshark: Run, own: Path, private: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    assert kshark("export", private, "-o", tmp_path / "tables", "--dissector", own).code == 0
    rows = pq.read_table(tmp_path / "tables" / "exchanges").to_pylist()
    assert [(row["api"], row["request_json"]) for row in rows if row["api_key"] == 9001] == [
        ("OurQuota", '{"tenant":"acme"}')
    ]
    assert "OurQuota  API 9001 · versions 0-1 · flexible 1" in kshark("explain", "OurQuota", "--dissector", own).lines


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is no such file"),
        ("x = 1", "no DISSECTOR made by kshark.schema.api"),
        (OWN.replace("9001", "78"), "api key 78 already belongs to ShareFetch"),
        (OWN.replace("OurQuota", "Fetch"), "the name Fetch already belongs to api key 1"),
        (OWN.replace('"tenant"', '"Tenant"'), "is not snake_case"),
    ],
)
def test_a_dissector_that_cannot_be_used_says_why(
    kshark: Run, tmp_path: Path, private: Path, text: str | None, told: str
) -> None:
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    done = kshark("read", private, "--dissector", path)
    assert done.code == 2
    assert told in done.err
