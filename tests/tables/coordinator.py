"""A partition leader and the share coordinator, and a consumer group's member: what each table says of them."""

from __future__ import annotations

from typing import Any

from tests.tables.story import OTHER, TOPIC, Cells, Chapter, Story, row


def told() -> Story:
    """Each of the five operations on one partition, then a heartbeat."""
    story = Story()
    group = {"group_id": "g"}
    mine = {"partition": 3, "leader_epoch": 6}
    ok = [{"topic_id": TOPIC, "partitions": [{"partition": 3}]}]
    story.ask(
        83,
        0,
        **group,
        topics=[{"topic_id": TOPIC, "partitions": [{"partition": 3, "state_epoch": 1, "start_offset": 40}]}],
    )
    story.answer(83, 0, results=ok)
    written = {
        **mine,
        "state_epoch": 2,
        "start_offset": 50,
        "delivery_complete_count": 8,
        "state_batches": [{"first_offset": 50, "last_offset": 59, "delivery_state": 2, "delivery_count": 1}],
    }
    other = {"partition": 4, "leader_epoch": 9, "state_epoch": 5, "start_offset": 70}
    story.ask(
        85,
        1,
        **group,
        topics=[{"topic_id": TOPIC, "partitions": [written]}, {"topic_id": OTHER, "partitions": [other]}],
    )
    story.answer(85, 1, results=[{"topic_id": OTHER, "partitions": [{"partition": 4, "error_code": 94}]}, *ok])
    story.ask(84, 0, **group, topics=[{"topic_id": TOPIC, "partitions": [mine]}])
    batches = [
        {"first_offset": 50, "last_offset": 54, "delivery_state": 0, "delivery_count": 1},
        {"first_offset": 55, "last_offset": 59, "delivery_state": 4, "delivery_count": 5},
    ]
    read = {"partition": 3, "state_epoch": 2, "start_offset": 50, "state_batches": batches}
    story.answer(84, 0, results=[{"topic_id": TOPIC, "partitions": [read]}])
    story.ask(87, 1, **group, topics=[{"topic_id": TOPIC, "partitions": [mine]}])
    summary = {"partition": 3, "state_epoch": 3, "leader_epoch": 7, "start_offset": 60, "delivery_complete_count": 11}
    story.answer(87, 1, results=[{"topic_id": TOPIC, "partitions": [summary]}])
    story.ask(86, 0, **group, topics=[{"topic_id": TOPIC, "partitions": [{"partition": 3}]}])
    story.ask(68, 1, group_id="h", member_id="", subscribed_topic_names=None, rebalance_timeout_ms=1)
    story.wire.pause(1)
    story.answer(68, 1, member_id="given", member_epoch=4, heartbeat_interval_ms=3000, assignment=None)
    return story


def state(
    packet: int, correlation_id: int, operation: str, topic_id: str = TOPIC, partition: int = 3, **cells: Any
) -> Cells:
    place = {"group_id": "g", "topic_id": topic_id, "partition": partition}
    return row(packet, correlation_id=correlation_id, operation=operation, **place, **cells)


CHAPTER = Chapter(
    told,
    {
        "share_state": [
            state(4, 1, "initialize", state_epoch=1, start_offset=40, error_code=0),
            state(
                6, 2, "write", state_epoch=2, leader_epoch=6, start_offset=50, delivery_complete_count=8,
                batches=[(50, 59, 2, 1)], error_code=0,
            ),
            state(
                6, 2, "write", OTHER, 4, state_epoch=5, leader_epoch=9, start_offset=70, delivery_complete_count=-1,
                batches=[], error_code=94,
            ),
            state(8, 3, "read", state_epoch=2, leader_epoch=6, start_offset=50, batches=[(50, 54, 0, 1), (55, 59, 4, 5)], error_code=0),
            state(10, 4, "read_summary", state_epoch=3, leader_epoch=6, start_offset=60, delivery_complete_count=11, error_code=0),
            state(12, 5, "delete"),
        ],
        "heartbeats": [
            row(
                13, correlation_id=6, group_type="consumer", group_id="h", member_id="given", member_epoch=0,
                response_member_epoch=4,
                outcome="answered", error_code=0, interval_ms=3000,
            ),
        ],
    },
)  # fmt: skip
