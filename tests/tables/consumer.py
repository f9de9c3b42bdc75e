"""A share consumer and its broker, which names itself and its topic: what each table says of them."""

from __future__ import annotations

from typing import Any

from kshark import __version__
from kshark.tables.capture_summary import Ended
from tests.tables.story import BROKER, OTHER, STEP_NS, TOPIC, Cells, Chapter, Story, capture_row, ns, row

MEMBER = "JUkzQ2dCQUFBQUFBQUFBQQ"
#: blake2b, 8 bytes, of "127.0.0.1:9092", "g" and MEMBER with zero bytes between them, as a signed number (by hashlib,
#: once).
SESSION_KEY = -3101500443821523467


def told() -> Story:
    """Packet 20 is the last that matters: the broker's FIN, and one acknowledgement was never answered."""
    story = Story()
    story.ask(18, 3, client_software_name="demo", client_software_version="1.0")
    story.answer(18, 3)
    story.ask(3, 12, topics=None)
    brokers = [{"node_id": 7, "host": "localhost", "port": 9092, "rack": None}]
    story.answer(
        3,
        12,
        throttle_time_ms=5,
        cluster_id="one",
        brokers=brokers,
        topics=[{"name": "orders", "topic_id": TOPIC, "partitions": []}],
    )
    story.ask(76, 1, group_id="g", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["orders"])
    assigned = {"topic_partitions": [{"topic_id": TOPIC, "partitions": [0, 1]}]}
    story.answer(76, 1, member_id=MEMBER, member_epoch=1, heartbeat_interval_ms=5000, assignment=assigned)
    story.ask(76, 1, group_id="g", member_id=MEMBER, member_epoch=1, subscribed_topic_names=None)
    story.answer(76, 1, error_code=25, member_id=MEMBER, assignment=None)
    session = {"group_id": "g", "member_id": MEMBER}
    listed = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    story.ask(
        78, 2, **session, share_session_epoch=0, max_wait_ms=500, max_records=100, share_acquire_mode=1, topics=listed
    )
    back = {"first_offset": 2, "last_offset": 3, "delivery_count": 1}
    acquired = [
        {
            "partition_index": 0,
            "records": b"",
            "acquired_records": [{"first_offset": 100, "last_offset": 104, "delivery_count": 1}],
        },
        {
            "partition_index": 1,
            "records": b"",
            "acquired_records": [{"first_offset": 7, "last_offset": 7, "delivery_count": 3}, back],
        },
    ]
    story.answer(78, 2, acquisition_lock_timeout_ms=15000, responses=[{"topic_id": TOPIC, "partitions": acquired}])
    batches = [
        {"first_offset": 100, "last_offset": 102, "acknowledge_types": [1]},
        {"first_offset": 103, "last_offset": 104, "acknowledge_types": [2, 3]},
    ]
    one = [{"first_offset": 7, "last_offset": 7, "acknowledge_types": [4]}]
    topics = [
        {"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]},
        {
            "topic_id": OTHER,
            "partitions": [{"partition_index": 0, "acknowledgement_batches": one}, *[{"partition_index": 5}] * 2],
        },
    ]
    gone = [{"topic_id": TOPIC, "partitions": [1]}]
    story.ask(78, 2, **session, share_session_epoch=1, is_renew_ack=True, topics=topics, forgotten_topics_data=gone)
    results = [{"partition_index": 0, "error_code": 6, "acknowledge_error_code": 121, "records": b""}]
    story.answer(78, 2, throttle_time_ms=9, responses=[{"topic_id": TOPIC, "partitions": results}])
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 1, "acknowledgement_batches": one}]}]
    story.ask(79, 2, **session, share_session_epoch=2, topics=topics)
    story.answer(
        79, 2, error_code=122, responses=[{"topic_id": TOPIC, "partitions": [{"partition_index": 1, "error_code": 3}]}]
    )
    story.ask(79, 2, **session, share_session_epoch=-1)
    story.close()
    return story


def of_member(packet: int, correlation_id: int, **cells: Any) -> Cells:
    return row(packet, correlation_id=correlation_id, group_id="g", member_id=MEMBER, **cells)


def request(packet: int, correlation_id: int, api: str, epoch: int, **cells: Any) -> Cells:
    named = {"api": api, "api_version": 2, "session_key": SESSION_KEY, "epoch": epoch, "renew": False, "forgotten": []}
    not_said = {"repeats": False, "only_lists": False, "lists_new": False, "acknowledges_new": False, "failed": False}
    limited = {"acquire_mode": 0} if api == "ShareFetch" else {}
    return of_member(packet, correlation_id, **{**named, **not_said, **limited, **cells})


def acknowledged(packet: int, correlation_id: int, topic_id: str, partition: int, **cells: Any) -> Cells:
    return of_member(
        packet, correlation_id, topic_id=topic_id, topic={TOPIC: "orders"}.get(topic_id), partition=partition, **cells
    )


ANSWERED = {"outcome": "answered", "latency_ns": STEP_NS}
HANDED = {"exchange": 12, "lock_timeout_ms": 15000, "misplaced": False}
HEARD = {"group_type": "share", "outcome": "answered"}

CHAPTER = Chapter(
    told,
    {
        "heartbeats": [
            of_member(
                8, 3, **HEARD, member_epoch=0, response_member_epoch=1, error_code=0, interval_ms=5000,
                subscribed=["orders"], assignment=[(TOPIC, 0), (TOPIC, 1)],
            ),
            of_member(10, 4, **HEARD, member_epoch=1, response_member_epoch=0, error_code=25, interval_ms=0),
        ],
        "share_requests": [
            request(
                12, 5, "ShareFetch", 0, **ANSWERED, error_code=0, max_wait_ms=500, max_records=100, acquire_mode=1,
                partitions=[(TOPIC, 0), (TOPIC, 1)], only_lists=True, lists_new=True,
            ),
            request(
                14, 6, "ShareFetch", 1, **ANSWERED, error_code=0, max_wait_ms=0, max_records=0, renew=True,
                partitions=[(TOPIC, 0), (OTHER, 0), (OTHER, 5), (OTHER, 5)], forgotten=[(TOPIC, 1)],
                previous_epoch=0, repeats=True, only_lists=True, lists_new=True, acknowledges_new=True, failed=True,
            ),
            request(16, 7, "ShareAcknowledge", 2, **ANSWERED, error_code=122, partitions=[(TOPIC, 1)], previous_epoch=1, failed=True),
            request(18, 8, "ShareAcknowledge", -1, outcome="unanswered", partitions=[], previous_epoch=2, failed=None),
        ],
        "acquired": [
            acknowledged(13, 5, TOPIC, 0, **HANDED, first_offset=100, last_offset=104, delivery_count=1),
            acknowledged(13, 5, TOPIC, 1, **HANDED, first_offset=7, last_offset=7, delivery_count=3),
            acknowledged(13, 5, TOPIC, 1, **{**HANDED, "misplaced": True}, first_offset=2, last_offset=3, delivery_count=1),
        ],
        "acknowledgements": [
            acknowledged(14, 6, TOPIC, 0, first_offset=100, last_offset=102, types=[1], piggybacked=True, error_code=121),
            acknowledged(14, 6, TOPIC, 0, first_offset=103, last_offset=104, types=[2, 3], piggybacked=True, error_code=121),
            acknowledged(14, 6, OTHER, 0, first_offset=7, last_offset=7, types=[4], piggybacked=True),
            acknowledged(16, 7, TOPIC, 1, first_offset=7, last_offset=7, types=[4], piggybacked=False, error_code=3),
        ],
        "weirds": [
            row(
                20, exchange=18, stage="exchange", code="REQUEST_UNANSWERED", detail="ShareAcknowledge with "
                    "correlation id 8 in packet 18",
                kind="event", times=1, direction="client", first_packet=18, size_bytes=0, correlation_id=8, position=24,
            ),
        ],
        "flows": [
            row(
                1, exchange=None, node_id=7, listener="localhost:9092", software_name="demo", software_version="1.0",
                service="kafka",
                told=True,
                opened_by="client", half_closed_packet=19, half_closed_ts_ns=ns(19), half_closed_by="client",
                half_closed_position=23,
                first_request_packet=4, last_request_packet=18, first_response_packet=5, closed_packet=20, cluster_id="one",
                closed_ts_ns=ns(20),
                closed_by="client", ended="fin", last_packet=20, last_ts_ns=ns(20), client_bytes=606, broker_bytes=481,
                gaps=0,
            ),
        ],
        "share_state": [],
        "record_batches": [],
        "records": [],
        "findings": [],
        "captures": [
            capture_row(
                files=[], sha256=[], clusters=["one"], brokers=[BROKER], broker_releases=[], client_software=["demo 1.0"],
                until_ts_ns=ns(20), packets=20, stream_bytes=606 + 481, connections=1, kafka_connections=1,
                tls_connections=0, gaps=0, missing_bytes=0, weirds=[("REQUEST_UNANSWERED", 1)], exchanges=8, answered=7, unanswered=1, one_way=0,
                orphans=0, body_cut=0, judged=6, coverage=0.75, sessions=0, violations=0, unknown=0, notes=0,
                findings=[], kshark=__version__, seconds=0.0,
            ),
        ],
    },
    ended=Ended([], [], None, None, 20, 0.0),
)  # fmt: skip
