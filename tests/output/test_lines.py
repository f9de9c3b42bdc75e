"""One line a message: what an engineer reads first."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from kshark.output.items import ranged
from kshark.output.lines import MessageLines
from kshark.output.spans import plain
from kshark.records import Record
from kshark.records.writer import write_batch
from tests.output.messages import REGISTRY, Message, message, request, response, unreadable

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
MEMBER = "JUkzTnp0Qm6-aaaaaaaaaa"


def line(of: Message, width: int | None = None) -> str:
    return plain(MessageLines(REGISTRY, width).of(of))


def said(of: Message) -> str:
    """What stands behind the correlation id."""
    return line(of).partition(" #12")[2].strip()


def fetch(**fields: object) -> Message:
    return request("ShareFetch", 1, group_id="g", member_id=MEMBER, share_session_epoch=2, max_wait_ms=500, **fields)


def partitions(*indexes: int) -> list[dict[str, object]]:
    return [{"topic_id": TOPIC, "partitions": [{"partition_index": i, "acknowledgement_batches": []} for i in indexes]}]


def test_a_pipe_gets_everything() -> None:
    assert line(fetch(topics=partitions(0, 1, 2, 5))) == (
        f"   41 12:03:07.412345 10.0.0.1:50001 → 10.0.0.9:9092 ShareFetch v1 #12 group=g member={MEMBER} epoch=2 "
        f"{TOPIC}[0-2,5]"
    )


def test_a_narrow_terminal_gets_the_flow_number_and_short_ids() -> None:
    assert line(fetch(), 80) == "   41 12:03:07.412   3 → ShareFetch v1 group=g member=JUkz… epoch=2"


def test_where_room_is_short_the_error_stands_before_the_time() -> None:
    assert line(response("ShareFetch", 1, error_code=123), 80).endswith(
        "ShareFetch v1 123 INVALID_SHARE_SESSION_EPOCH 1.25 ms"
    )


def test_an_answer_says_how_long_it_took_and_which_error_it_carries() -> None:
    assert said(response("ShareFetch", 1, error_code=123)) == "1.25 ms 123 INVALID_SHARE_SESSION_EPOCH"


def test_an_answer_says_whose_it_is() -> None:
    answer, odd = response("ShareFetch", 1, error_code=123), response("ShareFetch", 1)
    for each in (answer, odd):
        each.group_id, each.member_id = "g 1", MEMBER
    odd.weird, odd.member_id = ["RESYNC"], UNSET
    assert said(answer) == f'1.25 ms 123 INVALID_SHARE_SESSION_EPOCH group="g 1" member={MEMBER}'
    assert said(odd) == '1.25 ms group="g 1" RESYNC'
    assert line(answer, 80).endswith('123 INVALID_SHARE_SESSION_EPOCH 1.25 ms group="g 1" member=JUkz…')
    assert MessageLines(REGISTRY).text([answer, odd]) == f"{line(answer)}\n{line(odd)}\n"


def test_errors_of_partitions_are_counted() -> None:
    answer = response(
        "ShareFetch",
        1,
        responses=[{"topic_id": TOPIC, "partitions": [{"partition_index": i, "error_code": 6} for i in range(3)]}],
    )
    assert said(answer) == f"1.25 ms 6 NOT_LEADER_OR_FOLLOWER ×3 {TOPIC}[0-2]"


def test_an_error_message_is_quoted() -> None:
    assert '42 INVALID_REQUEST "no\\nway"' in said(response("ShareFetch", 1, error_code=42, error_message="no\nway"))


def test_ranges_count_the_records_they_cover() -> None:
    batches = [
        {"first_offset": 10, "last_offset": 19, "acknowledge_types": [1]},
        {"first_offset": 30, "last_offset": 30, "acknowledge_types": [2]},
    ]
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]}]
    assert said(request("ShareAcknowledge", 1, group_id="g", member_id="m", share_session_epoch=-1, topics=topics)) == (
        f"group=g member=m epoch=-1 {TOPIC}[0] acks=11"
    )


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (
            request("FindCoordinator", 4, key_type=2, coordinator_keys=["g:x:1"]),
            "key_type=SHARE coordinator_keys=g:x:1",
        ),
        (
            response("FindCoordinator", 4, coordinators=[{"key": "g", "node_id": 1, "host": "k", "port": 9}]),
            "1.25 ms key=g node=1 host=k port=9",
        ),
        (request("Metadata", 12, topics=[{"name": "orders"}, {"name": "two words"}]), 'orders,"two words"'),
        (request("Metadata", 12, topics=None), ""),
        (
            request("ApiVersions", 3, client_software_name="java", client_software_version="4.1.0"),
            "software=java version=4.1.0",
        ),
        (response("ApiVersions", 3, api_keys=[{"api_key": 1}, {"api_key": 2}]), "1.25 ms api_keys=2"),
        (request("Produce", 9, acks=-1, topic_data=[{"name": "t", "partition_data": [{"index": 4}]}]), "acks=-1 t[4]"),
        (request("Fetch", 12, replica_id=-1, session_id=7, session_epoch=0), "session=7 session_epoch=0"),
        (
            request("Heartbeat", 4, group_id="g", generation_id=3, member_id="m", group_instance_id=None),
            "group=g generation=3 member=m",
        ),
    ],
)
def test_any_api_is_summed_up_from_its_schema(of: Message, text: str) -> None:
    assert said(of) == text


def test_records_are_counted_with_their_bytes() -> None:
    batch = write_batch([Record(n, 0, None, b"v", ()) for n in range(3)])
    produced = request(
        "Produce", 9, acks=1, topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": batch * 2}]}]
    )
    assert said(produced) == f"acks=1 t[0] records=6 ({2 * len(batch)} B)"


def test_a_frame_that_nobody_can_read_still_has_a_line() -> None:
    assert line(unreadable()) == "    7 12:03:07.412345 10.0.0.1:50001 ↔ 10.0.0.9:9092 frame 30 B BODY_TOO_SHORT"
    assert "response 30 B" in line(unreadable("response"))


def test_a_body_that_was_not_read_leaves_its_size() -> None:
    told = request("Metadata", 12)
    told.body = None
    assert said(told) == "96 B"


def test_foreign_strings_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in line(request("Heartbeat", 4, group_id="\x1b[2J", generation_id=3, member_id="m"))


def test_every_api_in_every_version_has_a_summary() -> None:
    lines, pipe = MessageLines(REGISTRY), MessageLines(REGISTRY)
    for key, name in REGISTRY.names().items():
        api = REGISTRY.api(key)
        for version in range(api.versions.low, api.versions.high + 1) if api else ():
            for kind in ("request", "response"):
                said = message(kind, name, version)
                assert f"{name} v{version}" in plain(lines.of(said))
                assert pipe.text([said]) == plain(lines.of(said)) + "\n"


def test_partitions_read_as_ranges() -> None:
    assert [ranged(each) for each in ([], [3], [0, 1, 2], [0, 2, 3], range(0, 20, 2))] == [
        "",
        "3",
        "0-2",
        "0,2-3",
        "0,2,4,6,…",
    ]


def test_a_pipe_gets_the_same_text_without_styles() -> None:
    talk = [
        fetch(),
        response("ShareFetch", 1, error_code=123),
        unreadable(),
        request("Produce", 9, packet=100_000, acks=-1),
        fetch(),
    ]
    pipe, styled = MessageLines(REGISTRY), MessageLines(REGISTRY)
    assert pipe.text(talk) == "".join(plain(styled.of(each)) + "\n" for each in talk)


def test_a_body_of_another_layout_says_what_it_has() -> None:
    refused = response("ApiVersions", 0, error_code=35, api_keys=[{"api_key": 18}])
    refused.version = 4
    assert said(refused) == "1.25 ms 35 UNSUPPORTED_VERSION api_key=API_VERSIONS min_version=0 max_version=0"
    assert MessageLines(REGISTRY).text([refused]) == line(refused) + "\n"
