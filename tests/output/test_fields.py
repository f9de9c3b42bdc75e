"""Fields by name, as tshark's -e prints them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kshark
from kshark.conditions.fields import COMMON, Fields
from kshark.errors import UsageError
from kshark.output.fields import fields_lines
from kshark.output.jsonlines import json_lines, pretty
from tests.output.messages import REGISTRY, Message, request, response, unreadable
from tests.shared import CAPTURES

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
FIELDS = Fields(REGISTRY)


def value(name: str, of: Message) -> str:
    return fields_lines([FIELDS.reader(name)])([of])[:-1]


ASKED = request(
    "ShareFetch",
    1,
    group_id="g\tx",
    member_id=None,
    share_session_epoch=2,
    topics=[{"topic_id": TOPIC, "partitions": [{"partition_index": i} for i in (4, 7)]}],
    forgotten_topics_data=[{"topic_id": "AAAAAAAAAAAAAAAAAAAACA", "partitions": [1]}],
)
ANSWERED = response(
    "ShareFetch",
    1,
    error_code=0,
    responses=[
        {"topic_id": TOPIC, "partitions": [{"partition_index": 4, "error_code": 6, "current_leader": {"leader_id": 2}}]}
    ],
)


@pytest.mark.parametrize(
    ("name", "asked", "answered"),
    [
        ("frame.number", "41", "44"),
        ("frame.time_epoch", "1795262587.412345678", "1795262587.412345678"),
        ("ip.addr", "10.0.0.1,10.0.0.9", "10.0.0.9,10.0.0.1"),
        ("tcp.port", "50001,9092", "9092,50001"),
        ("kafka.flow", "3", "3"),
        ("kafka.len", "96", "96"),
        ("kafka.request", "true", "false"),
        ("kafka.response", "false", "true"),
        ("kafka.api_key", "78", "78"),
        ("kafka.api", "ShareFetch", "ShareFetch"),
        ("kafka.api_version", "1", "1"),
        ("kafka.correlation_id", "12", "12"),
        ("kafka.client_id", "c1", "c1"),
        ("kafka.latency_ms", "", "1.25"),
        ("kafka.weird", "", ""),
        ("kafka.share_session_epoch", "2", ""),
        ("kafka.group_id", "g\\tx", ""),
        ("kafka.member_id", "", ""),
        ("kafka.error_code", "", "0,6"),
        ("kafka.responses.partitions.error_code", "", "6"),
        ("kafka.topics.partitions.partition_index", "4,7", ""),
        ("kafka.partition_index", "4,7", "4"),
        ("kafka.topic_id", f"{TOPIC},AAAAAAAAAAAAAAAAAAAACA", TOPIC),
        ("kafka.topics.topic_id", TOPIC, ""),
        ("kafka.forgotten_topics_data.partitions", "1", ""),
        ("kafka.current_leader.leader_id", "", "2"),
    ],
)
def test_a_field_gives_every_occurrence(name: str, asked: str, answered: str) -> None:
    assert (value(name, ASKED), value(name, ANSWERED)) == (asked, answered)


def test_an_answer_has_the_group_and_the_member_of_its_request() -> None:
    answer, refused = response("ShareFetch", 1), response("ShareGroupHeartbeat", 1, error_code=110, member_id=None)
    for each in (answer, refused):
        each.group_id, each.member_id = "g", "m"
    assert [value(name, answer) for name in ("kafka.group_id", "kafka.member_id")] == ["g", "m"]
    assert value("kafka.member_id", refused) == "m"


def test_every_common_field_can_be_asked_of_anything() -> None:
    for name in COMMON:
        value(name, unreadable())
    assert value("kafka.weird", unreadable()) == "BODY_TOO_SHORT"
    assert value("kafka.api", unreadable()) == ""


def test_a_structure_is_printed_as_json() -> None:
    assert value("kafka.current_leader", ANSWERED) == '{"leader_id":2,"leader_epoch":0}'


def test_bytes_are_base64() -> None:
    assert value("kafka.auth_bytes", request("SaslAuthenticate", 1, auth_bytes=b"\x00\xff")) == "AP8="


def test_ipv6_addresses_lose_their_brackets() -> None:
    six: Any = request("Heartbeat", 0)
    six.client = "[fe80::1]:4000"
    assert (value("ip.addr", six), value("tcp.port", six)) == ("fe80::1,10.0.0.9", "4000,9092")


def test_fields_of_records_can_be_named() -> None:
    assert FIELDS.reader("kafka.records.batches.base_offset")(ANSWERED) == []
    assert FIELDS.reader("kafka.responses.partitions.records.size")(ANSWERED) == [0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka.share_epoch", '; did you mean "kafka.share_session_epoch"?'),
        ("kafka.aip", '; did you mean "kafka.api"?'),
        ("share_session_epoch", '; did you mean "kafka.share_session_epoch"?'),
        ("frame.nmber", '; did you mean "frame.number"?'),
    ],
)
def test_a_name_that_no_message_has_is_refused_with_what_comes_close(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as told:
        FIELDS.reader(name)
    assert str(told.value).startswith(f'unknown field "{name}"')
    assert hint in str(told.value)


def test_columns_of_attributes_are_what_each_message_gives_by_itself() -> None:
    names = [
        "frame.number",
        "kafka.flow",
        "kafka.len",
        "kafka.api_key",
        "kafka.api",
        "kafka.api_version",
        "kafka.correlation_id",
    ]
    messages = list(kshark.read(CAPTURES / "adv-frames.pcap"))
    readers = [FIELDS.reader(name) for name in [*names, "kafka.client_id"]]
    one_by_one = fields_lines([*readers, FIELDS.reader("frame.time_epoch")])

    together = fields_lines(readers)(messages)

    assert together.splitlines() == [line.rpartition("\t")[0] for line in one_by_one(messages).splitlines()]


#: What turns, hides or obeys, and what a reader is shown instead.
ODD = {
    "\x1b[2J": "\\x1b[2J",
    "\x7f": "\\x7f",
    "\x9b1m": "\\x9b1m",
    "a\u202eb": "a\\u202eb",
    "\u2066x": "\\u2066x",
    "\u200f": "\\u200f",
    "a\nb": "a\\nb",
}


@pytest.mark.parametrize("text", ODD)
def test_fields_and_json_show_nothing_that_a_terminal_obeys(text: str) -> None:
    asked = request("ShareFetch", 1, group_id=text, member_id="größe 大")
    asked.client_id = text
    assert value("kafka.group_id", asked) == value("kafka.client_id", asked) == ODD[text]
    assert value("kafka.member_id", asked) == "größe 大"
    line = json_lines([asked]).decode()
    assert line[:-1].isprintable()
    assert json.loads(line)["body"]["group_id"] == text
    assert json.loads(line)["body"]["member_id"] == "größe 大"
    assert json.loads(pretty({"a": text})) == {"a": text}
    structure = value("kafka.topics", request("ShareFetch", 1, topics=[{"topic_id": TOPIC}]))
    assert structure.isprintable()


@given(st.text())
def test_whatever_a_text_holds_json_keeps_it_and_shows_it_safely(text: str) -> None:
    (line,) = json_lines([{"a": text}]).decode().splitlines()
    assert json.loads(line) == {"a": text}
    assert line.isprintable()
