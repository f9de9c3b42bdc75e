"""Display filters on single messages: what a name means, what passes, which bodies have to be read, and what a mistake
is told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark.codec.paths import paths
from kshark.conditions.fields import COMMON, PREFIX, Fields
from kshark.conditions.filter import Filter
from kshark.conditions.literals import TRUTH, type_of
from kshark.errors import FilterError
from kshark.face import pages
from kshark.model import Message
from kshark.pipeline import Options
from kshark.records import batch
from kshark.records.fields import RECORDS
from kshark_dissectors.index import INDEX
from tests.examples import as_many
from tests.output.messages import REGISTRY, request, response, unreadable
from tests.shared import CAPTURES

FIELDS = Fields(REGISTRY)
TOPIC = "AAAAAAAAAAAAAAAAAAAABw"

ASKED = request(
    "ShareFetch",
    1,
    group_id="g 1",
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
JOINS = request("JoinGroup", 5, group_id="g", protocols=[{"name": "range", "metadata": b"\x00\xff"}])
ODD = unreadable()


@cache
def wanted(text: str) -> Filter:
    return Filter(text, FIELDS)


def passes(text: str, message: Message) -> bool:
    return wanted(text).passes(message)


@pytest.mark.parametrize(
    ("text", "asked", "answered"),
    [
        # the header
        ("kafka", True, True),
        ("kafka.request", True, False),
        ("kafka.response", False, True),
        ("kafka.request == false", False, True),
        ("kafka.request != 1", False, True),
        ("kafka.api == ShareFetch", True, True),
        ("kafka.api == sharefetch && kafka.request", True, False),
        ("kafka.api == 78", True, True),
        ("kafka.api != Fetch", True, True),
        ('kafka.api contains "Share"', True, True),
        ("kafka.api in {Fetch ShareAcknowledge}", False, False),
        ("kafka.api matches fetch$", True, True),
        ("kafka.api_key >= 78 and kafka.api_key le 0x4e", True, True),
        ("kafka.api_version lt 1", False, False),
        ("kafka.correlation_id in {1..5, 12}", True, True),
        ("kafka.client_id == c1", True, True),
        ('kafka.client_id == "C1"', False, False),
        ("kafka.client_id ~ C.", True, True),
        ("kafka.len == 96", True, True),
        ("kafka.flow == 3 || kafka.flow == 4", True, True),
        ("frame.number < 42", True, False),
        ("kafka.latency_ms", False, True),
        ("kafka.latency_ms > 1.2499", False, True),
        ("kafka.latency_ms > 1250us", False, False),
        ("kafka.latency_ms >= 0.00125s", False, True),
        ("kafka.latency_ms in {1..2}", False, True),
        ("kafka.weird", False, False),
        # times
        ("frame.time_epoch == 1795262587.412345678", True, True),
        ("frame.time_epoch > 1795262587", True, True),
        ('frame.time_epoch < "2026-11-21T12:03:07Z"', False, False),
        ('frame.time_epoch >= "2026-11-21 12:03:07.412345678"', True, True),
        ('frame.time_epoch > "2026-11-21 14:03:07.412345678+02:00"', False, False),
        # ends
        ("ip.addr == 10.0.0.9", True, True),
        ("ip.src == 10.0.0.9", False, True),
        ("ip.dst == 10.0.0.0/29", False, True),
        ("ip.addr == 10.0.0.0/8", True, True),
        ("ip.addr != 10.0.0.1", False, False),
        ("ip.addr ~= 10.0.0.1", True, True),
        ("ip.src != 10.0.0.1", False, True),
        ("ip.addr in {192.168.0.0/16 10.0.0.2..10.0.0.9}", True, True),
        ("ip.addr == ::1", False, False),
        ("tcp.port == 9092", True, True),
        ("tcp.srcport == 9092", False, True),
        ("tcp.dstport != 9092", False, True),
        ("tcp.port in {9000..9100}", True, True),
        # bodies
        ("kafka.share_session_epoch == 2", True, False),
        ("kafka.share_session_epoch", True, False),
        ("kafka.share_session_epoch != 2", False, False),
        ("!(kafka.share_session_epoch == 2)", False, True),
        ("not kafka.share_session_epoch", False, True),
        ('kafka.group_id == "g 1"', True, False),
        ('kafka.group_id contains "g"', True, False),
        ("kafka.member_id", False, False),
        ("kafka.error_code == 0", False, True),
        ("kafka.error_code == NOT_LEADER_OR_FOLLOWER", False, True),
        ("kafka.error_code == not_leader_or_follower", False, True),
        ("kafka.error_code != 0", False, False),
        ("kafka.error_code any_ne 0", False, True),
        ("kafka.error_code all_eq 0", False, False),
        ("kafka.error_code > 0", False, True),
        ("kafka.error_code not in {1..5}", False, True),
        ("kafka.error_code in {1..5}", False, False),
        ("kafka.responses.partitions.error_code != 0", False, True),
        ("kafka.partition_index == 7", True, False),
        ("kafka.topics.partitions.partition_index == 4", True, False),
        ("kafka.partitions.partition_index in {4}", True, True),
        ("kafka.forgotten_topics_data.partitions == 1", True, False),
        (f"kafka.topic_id == {TOPIC}", True, True),
        ("kafka.current_leader.leader_id == 2", False, True),
        ("kafka.current_leader", False, True),
        ("kafka.topics", True, False),
        ("kafka.topics && kafka.node_endpoints", False, False),
        # joined
        ("kafka.request && kafka.partition_index == 4 || kafka.error_code == 6", True, True),
        ("kafka.request && (kafka.partition_index == 5 || kafka.error_code == 6)", False, False),
        ("not not kafka.request", True, False),
        ("! kafka.request and ! kafka.weird", False, True),
    ],
)
def test_a_filter_passes(text: str, asked: bool, answered: bool) -> None:
    found = wanted(text)
    assert (found.passes(ASKED), found.passes(ANSWERED)) == (asked, answered)
    assert found.passing([ASKED, ANSWERED, ASKED]) == [
        m for m, passed in ((ASKED, asked), (ANSWERED, answered), (ASKED, asked)) if passed
    ]


def owned(answer: Message, group_id: Any, member_id: Any) -> Message:
    """The answer to a request that named these."""
    answer.group_id, answer.member_id = group_id, member_id
    return answer


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("kafka.group_id == g", True),
        ("kafka.group_id != g", False),
        ("kafka.group_id matches ^G$", True),
        ("kafka.member_id in {a m z}", True),
        ("kafka.member_id != a", True),
        ("kafka.member_id ~= m", False),
        ("kafka.member_id === m", True),
        ("kafka.member_id && kafka.group_id && kafka.response", True),
        ("kafka.groups.group_id == g", False),
        ("kafka.group_instance_id", False),
    ],
)
def test_an_answer_is_its_requests_groups_and_members(text: str, passed: bool) -> None:
    assert passes(text, owned(response("ShareFetch", 1), "g", "m")) is passed
    assert not passes("kafka.group_id || kafka.member_id", owned(response("ShareFetch", 1), UNSET, UNSET))


def test_a_member_that_an_answer_names_itself_counts_too() -> None:
    assert passes("kafka.member_id == own", owned(response("ShareGroupHeartbeat", 1, member_id="own"), "g", UNSET))
    assert passes("kafka.member_id == m", owned(response("ShareGroupHeartbeat", 1, member_id=None), "g", "m"))


def test_bytes_and_what_they_hold() -> None:
    opened = request("JoinGroup", 5, protocols=[{"name": "range", "metadata": b""}])
    opened.body.protocols[0].metadata_decoded = {
        "name": "ConsumerProtocolSubscription",
        "data": {"topics": ["orders", "7"], "version": 3},
    }
    assert passes("kafka.metadata == 00:ff", JOINS)
    assert passes("kafka.protocols.metadata contains ff:", JOINS) is False
    assert passes(r'kafka.metadata matches "\xff$"', JOINS)
    assert passes("kafka.metadata_decoded", opened)
    assert not passes("kafka.metadata_decoded", JOINS)
    assert passes("kafka.protocols.metadata_decoded.data.topics == orders", opened)
    assert passes("kafka.metadata_decoded.data.topics == 7", opened)
    assert passes("kafka.metadata_decoded.data.version >= 3", opened)
    assert not passes("kafka.metadata_decoded.data.version >= orders", opened)
    assert not passes("kafka.metadata_decoded.data.topics", JOINS)


def test_records() -> None:
    produced = [
        m for page in pages((CAPTURES / "produce-mix.pcap",), Options()) for m in page if isinstance(m, Message)
    ]
    for text in (
        'kafka.value contains "value"',
        "kafka.codec == zstd",
        "kafka.records.batches.count > 3",
        "kafka.headers",
        "!kafka.key",
    ):
        found = Filter(text, FIELDS).passing(produced)
        assert 0 < len(found) < len(produced), text


def test_what_nobody_can_read_passes_what_asks_for_nothing() -> None:
    assert passes("kafka.weird == BODY_TOO_SHORT && !kafka.api && !kafka.request && !kafka.response", ODD)
    assert not passes("kafka.error_code || kafka.api_key >= 0 || kafka.client_id", ODD)


@pytest.mark.parametrize(
    ("text", "apis", "bodies"),
    [
        ("kafka.api == ShareFetch", {78}, set()),
        ("kafka.api_key in {78 79} && tcp.port == 9092", {78, 79}, set()),
        ("kafka.request || kafka.correlation_id > 3", INDEX.keys(), set()),
        ("kafka.share_session_epoch > 3", INDEX.keys(), {78, 79}),
        ("kafka.api == ShareFetch && kafka.share_session_epoch > 3", {78}, {78}),
        ("kafka.api == Fetch && kafka.share_session_epoch > 3", {1}, set()),
        ("!(kafka.api == ShareFetch) && kafka.api_key > 77 && kafka.api_key < 80", {79}, set()),
        ("kafka.api == Produce || kafka.api == ShareFetch && kafka.error_code > 0", {0, 78}, {78}),
        ("kafka.group_id == g || kafka", INDEX.keys(), set()),
    ],
)
def test_only_bodies_are_read_that_decide(text: str, apis: set[int], bodies: set[int]) -> None:
    assert wanted(text).apis == set(apis)
    assert wanted(text).needs == (frozenset(bodies), False, False)


def test_records_and_what_bytes_hold_are_opened_where_a_filter_asks_for_them() -> None:
    assert Filter("kafka.records.batches.records.key contains x", FIELDS).needs.records
    assert Filter("kafka.key contains x", FIELDS).needs.records
    assert Filter("kafka.api == Produce && kafka.weird", FIELDS).needs == (frozenset({0}), True, True)
    assert Filter("kafka.protocols.metadata_decoded", FIELDS).needs == (frozenset({11}), False, True)
    assert FIELDS.needs(["kafka.protocols.metadata_decoded.data", "kafka.api"]) == (frozenset({11}), False, True)
    assert FIELDS.needs(["kafka.api", "frame.number"]) == (frozenset(), False, False)


@pytest.mark.parametrize(
    ("text", "at", "told"),
    [
        ("kafka.share_epoch > 3", 1, 'unknown field "kafka.share_epoch"; did you mean "kafka.share_session_epoch"?'),
        ("kafka.request && kafka.aip == Fetch", 18, 'unknown field "kafka.aip"; did you mean "kafka.api"?'),
        ("tcp.flags.syn == 1", 1, 'unknown field "tcp.flags.syn"'),
        ("kafka.api == ShareFtch", 14, '"ShareFtch" is not a value of kafka.api; did you mean "ShareFetch"?'),
        ("kafka.error_code == INVALID_SHARE_SESION_EPOCH", 21, 'did you mean "INVALID_SHARE_SESSION_EPOCH"?'),
        ("kafka.error_code == INVALID_SHARE_SESION_EPOCH", 21, "kshark explain ErrorCode lists the names"),
        ("kafka.error_code == INVALID_SHARE", 21, 'did you mean "INVALID_SHARE_SESSION_EPOCH"?'),
        ("kafka.weird == BODY_TO_SHORT", 16, 'did you mean "BODY_TOO_SHORT"?'),
        ("kafka.api_key == one", 18, '"one" is not a value of kafka.api_key'),
        ("kafka.api_key == 1.5", 18, "kafka.api_key has whole numbers"),
        ("ip.addr == localhost", 12, "ip.addr has addresses as 10.0.0.1"),
        ("frame.time_epoch > yesterday", 20, "seconds since 1970, or a time as 2026-11-21T14:03:07.5Z"),
        ("kafka.is_renew_ack == maybe", 23, "true or false"),
        ("kafka.len contains 3", 11, "contains does not fit kafka.len"),
        ("ip.addr > 10.0.0.1", 9, "it allows == != in"),
        ("kafka.topics == 3", 14, "kafka.topics has no single value; name a field in it"),
        ('kafka.client_id matches "("', 25, "invalid regular expression: missing )"),
        ('kafka.client_id matches "a(?!b)"', 25, "its syntax is RE2's: no look-around, no back-references"),
        ("kafka.api = ShareFetch", 11, '"=" is not an operator; did you mean "=="?'),
        ("kafka.request & kafka.response", 15, 'did you mean "&&"?'),
        ("(kafka.request", 1, '"(" is not closed'),
        ("kafka.request)", 14, '")" has no matching "("'),
        ("kafka.request kafka.response", 15, "&& or || must follow"),
        ("kafka.request &&", 17, "the filter ends, but a field must follow"),
        ("", 1, "the filter ends, but a field must follow"),
        ("kafka.api_key ==", 17, "the filter ends, but a value must follow"),
        ("== 3", 1, '"==" stands where a field must stand'),
        ('"g" == kafka.group_id', 1, '"g" stands where a field must stand'),
        ("kafka.group_id == 'g", 19, "quotation mark is not closed"),
        ("kafka.api_key in 3", 18, '"3" stands where "{" must stand'),
        ("kafka.api_key in {1 2", 18, '"{" is not closed'),
        ("kafka.api_key in {}", 18, "the set is empty"),
        ("kafka.api_key in {1..x}", 22, '"x" is not a value'),
        ("(" * 65 + "kafka" + ")" * 65, 65, "more than 64"),
        ("!" * 65 + "kafka", 65, "more than 64"),
    ],
)
def test_a_mistake_is_told_in_one_sentence_with_its_place(text: str, at: int, told: str) -> None:
    with pytest.raises(FilterError) as wrong:
        Filter(text, FIELDS)
    sentence = str(wrong.value)
    assert told in sentence
    assert wrong.value.at == at - 1
    assert f"(character {at} of the filter; " in sentence
    assert "\n" not in sentence


def test_every_error_code_goes_by_name() -> None:
    places = FIELDS.places(("error_code",))
    assert len(places) > 100
    assert {type_of(place.path.field).names.get("SHARE_SESSION_NOT_FOUND") for place in places} == {122}


def test_texts_in_quotes() -> None:
    def group(name: str) -> Message:
        return request("Heartbeat", 0, group_id=name)

    assert passes(r'kafka.group_id == "a\"b\\\n\x41\q"', group('a"b\\\nA\\q'))
    assert passes(r'kafka.group_id == r"\n"', group(r"\n"))
    assert passes(r"kafka.group_id == 'it\'s'", group("it's"))
    assert passes(r'kafka.group_id matches "^a\.b\"$"', group('A.b"'))
    assert passes("kafka.group_id == sg-orders.1", group("sg-orders.1"))
    assert passes("kafka.group_id in {a..c}", group("bb"))
    assert passes("kafka.group_id in {a .. c}", group("bb"))
    assert passes("kafka.group_id in {a ..c}", group("bb"))
    assert passes("kafka.group_id in {a.. c}", group("bb"))
    assert passes('kafka.group_id in {"a..c"}', group("a..c"))


def one_of_each(name: str) -> list[Message]:
    """A capture's first message of each API, version, direction and outcome."""
    found: dict[Any, Message] = {}
    for page in pages((CAPTURES / f"{name}.pcap",), Options(embedded=True)):
        for event in page:
            if isinstance(event, Message):
                body = event.body
                found.setdefault((event.api_key, event.version, event.kind, getattr(body, "error_code", None)), event)
    return list(found.values())


def agree(name: str, messages: list[Message]) -> None:
    """-e prints something where the bare name passes, and each value it prints passes as `== value`."""
    read, there = FIELDS.reader(name), wanted(name)
    for message in messages:
        values = [value for value in read(message) if value is not None and value is not UNSET]
        if name not in COMMON or COMMON[name].type is not TRUTH:
            assert there.passes(message) is bool(values), (name, message)
        for value in values[-1:]:
            if isinstance(value, str | int | float):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
                assert passes(f"{name} == {quoted}", message), (name, value)


@pytest.mark.sweep
@pytest.mark.parametrize("capture", ["adv-acks", pytest.param("share-restart", marks=pytest.mark.slow)])
def test_every_name_means_the_same_for_e_and_for_y(capture: str) -> None:
    messages = one_of_each(capture)
    for message in messages:
        api = REGISTRY.api(message.api_key) if isinstance(message.api_key, int) else None
        if api is not None and isinstance(message.version, int):
            layout = api.request if message.kind == "request" else api.response
            for path in paths(layout.root, layout.versions.nearest(message.version)):
                agree(f"{PREFIX}{path}", [message])
    for name in (
        *COMMON,
        "kafka.error_code",
        "kafka.partitions.partition_index",
        "kafka.topic_id",
        "kafka.batches.count",
        "kafka.key",
    ):
        agree(name, [*messages, ODD])


#: What rules are told of closed records.
UNSHOWN = {"spans", "count", "transactions", "produced"}


def test_the_schema_of_records_is_that_of_their_classes() -> None:
    every = {str(path) for path in paths(RECORDS, 0)}
    for kind, where in (
        (batch.RecordsField, ""),
        (batch.Batch, "batches."),
        (batch.LegacyBatch, "batches."),
        (batch.Record, "batches.records."),
        (batch.RecordSizes, "batches.records."),
        (batch.Control, "batches.records.control."),
    ):
        assert {f"{where}{name}" for name in kind.__struct_fields__ if name not in UNSHOWN} <= every
    assert len(every) == len(
        {*batch.RecordsField.__struct_fields__} - UNSHOWN
        | {f"b{name}" for name in batch.Batch.__struct_fields__}
        | {f"r{name}" for name in (*batch.Record.__struct_fields__, *batch.RecordSizes.__struct_fields__)}
        | {f"c{name}" for name in batch.Control.__struct_fields__}
    )


WORDS = st.sampled_from(
    [*COMMON, "kafka.error_code", "kafka.topics", "kafka.group_id", "kafka", "==", "!=", "<", "contains", "matches",
     "in", "not",
     "!", "and", "or", "&&", "||", "(", ")", "{", "}", ",", "..", "1..2", '"x"', "'",
     '"', "r'(['", "NONE", "ShareFetch",
     "10.0.0.0/8", "-1", "~", "=", "1e99999", "9" * 50, "é", "\0"]
)  # fmt: skip


@settings(max_examples=as_many(150))
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=9).map(" ".join)))
def test_any_text_is_a_filter_or_a_mistake_with_its_place(text: str) -> None:
    found: Filter | FilterError
    try:
        found = Filter(text, FIELDS)
    except FilterError as wrong:
        found = wrong
    if isinstance(found, FilterError):
        assert 0 <= found.at <= len(text)
        assert str(found).isprintable()
        return
    for message in (ASKED, ANSWERED, JOINS, ODD):
        assert found.passes(message) in (True, False)
    assert found.condition.description
