"""Every field of a message, one a line."""

from __future__ import annotations

from kshark.output.spans import plain
from kshark.output.tree import Trees
from kshark.records import Record
from kshark.records.writer import write_batch
from tests.output.messages import REGISTRY, Message, message, request, response, unreadable

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"


def tree(of: Message) -> list[str]:
    return [plain(line) for line in Trees(REGISTRY).of(of)]


def test_a_request_reads_from_top_to_bottom() -> None:
    acks = [{"first_offset": 10, "last_offset": 11, "acknowledge_types": [1, 2]}]
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": acks}]}]
    assert tree(request("ShareAcknowledge", 1, group_id="g", member_id=None, share_session_epoch=2, topics=topics)) == [
        "packet 41  12:03:07.412345678  flow 3  10.0.0.1:50001 → 10.0.0.9:9092  96 bytes",
        'ShareAcknowledge v1 request  correlation id 12  client id "c1"',
        '  group_id: "g"',
        "  member_id: null",
        "  share_session_epoch: 2",
        "  topics: 1",
        "    - topic_id: AAAAAAAAAAAAAAAAAAAABw",
        "      partitions: 1",
        "        - partition_index: 0",
        "          acknowledgement_batches: 1",
        "            - first_offset: 10",
        "              last_offset: 11",
        "              acknowledge_types: [1 ACCEPT, 2 RELEASE]",
        "",
    ]


def test_an_answer_names_its_request_and_its_errors() -> None:
    lines = tree(response("ShareFetch", 1, error_code=123))
    assert lines[1] == 'ShareFetch v1 response  correlation id 12  client id "c1"  answers packet 41 after 1.25 ms'
    assert "  error_code: 123 INVALID_SHARE_SESSION_EPOCH" in lines
    assert "  responses: []" in lines


def test_an_answer_names_the_group_and_the_member_of_its_request() -> None:
    answer = response("ShareFetch", 1)
    answer.group_id, answer.member_id = "g", "m"
    assert tree(answer)[1].endswith('after 1.25 ms  group "g"  member "m"')


def test_bytes_that_are_text_read_as_text() -> None:
    lines = tree(
        request(
            "JoinGroup",
            5,
            group_id="g",
            protocols=[{"name": "range", "metadata": b"\x00\x01"}, {"name": "x", "metadata": b"hey"}],
        )
    )
    assert "      metadata: 00 01" in lines
    assert '      metadata: "hey"' in lines


def test_long_values_are_cut_and_say_how_long_they_are() -> None:
    (line,) = [line for line in tree(request("SaslAuthenticate", 1, auth_bytes=b"\xff" * 1000)) if "auth_bytes" in line]
    assert line.endswith("ff… (1.00 kB)")
    (line,) = [
        line for line in tree(request("SaslAuthenticate", 1, auth_bytes="€".encode() * 1000)) if "auth_bytes" in line
    ]
    assert line.endswith('€"… (3.00 kB)')


def test_records_are_opened() -> None:
    batch = write_batch(
        [Record(7, 1_000, b"k", None, (("h", b"\xff"),)), Record(8, 1_001, None, b"v", ())], codec="gzip"
    )
    produced = request(
        "Produce", 9, acks=1, topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    )
    lines = [line.strip() for line in tree(produced)]
    at = lines.index("records: 2")
    assert lines[at + 1 : at + 12] == [
        "- offset: 7",
        "timestamp: 1000",
        'key: "k"',
        "value: null",
        "headers: 1",
        '- "h", ff',
        "- offset: 8",
        "timestamp: 1001",
        "key: null",
        'value: "v"',
        "headers: []",
    ]
    assert "crc_ok: true" in lines
    assert 'codec: "gzip"' in lines


def test_tags_that_nobody_knows_are_shown() -> None:
    lines = tree(request("Heartbeat", 4, group_id="g", _tagged={"7": b"\x01\x02"}))
    assert lines[-3:-1] == ["  _tagged:", "    7: 01 02"]


def test_what_nobody_could_read_says_so() -> None:
    assert tree(unreadable()) == [
        "packets 6 to 7  12:03:07.412345678  flow 3  10.0.0.1:50001 → 10.0.0.9:9092  30 bytes",
        "frame unknown",
        "  BODY_TOO_SHORT  header",
        "  body not read",
        "",
    ]


def test_no_field_of_any_api_is_left_out() -> None:
    for key, name in REGISTRY.names().items():
        api = REGISTRY.api(key)
        for version in range(api.versions.low, api.versions.high + 1) if api else ():
            for kind, layout in (("request", api.request), ("response", api.response)) if api else ():
                text = "\n".join(tree(message(kind, name, version)))
                assert all(f"  {field.name}:" in text for field in layout.root.in_wire_order(version))
