"""A catalogue of bodies that do not fit: what is wrong with each, the bytes, the faults with byte and field, and what
was readable."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Malformed(NamedTuple):
    what: str
    key: int
    version: int
    direction: str
    hex: str
    faults: tuple[tuple[str, int, str], ...]
    read: dict[str, Any]


#: Bytes that some bodies begin with, and what they say: Fetch v12 up to its topics, its answer up to a partition's
#: tags, ShareFetch v1.
FETCH: Final = "ffffffff 000001f4 00000001 00100000 00 00000000 ffffffff "
FETCH_READ: Final = {
    "replica_id": -1,
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
}
NO_TOPICS: Final = {**FETCH_READ, "topics": [], "forgotten_topics_data": [], "rack_id": ""}
FETCHED: Final = "00000000 0000 00000000 02 0274 02 00000000 0000" + 3 * "0000000000000000" + "00 ffffffff 00 "
FETCHED_READ: Final = {
    "partition_index": 0,
    "error_code": 0,
    "high_watermark": 0,
    "last_stable_offset": 0,
    "log_start_offset": 0,
    "aborted_transactions": None,
    "preferred_read_replica": -1,
    "records": None,
}
SHARE_FETCH: Final = "0267 026d 00000000"
SHARE_WHOLE: Final = {
    **{
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": 0,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
    },
    **{"max_records": 0, "batch_size": 0, "topics": [], "forgotten_topics_data": []},
}

CATALOGUE: Final = (
    # array lengths
    Malformed(
        "array of length -1, no null",
        3,
        0,
        "request",
        "ffffffff",
        (("NULL_NOT_ALLOWED", 0, "topics"),),
        {"topics": None},
    ),
    Malformed(
        "array of length -2, no null",
        3,
        0,
        "request",
        "fffffffe",
        (("NULL_NOT_ALLOWED", 0, "topics"),),
        {"topics": None},
    ),
    Malformed("array of length -2 for null, as brokers take it", 3, 1, "request", "fffffffe", (), {"topics": None}),
    Malformed(
        "huge array",
        3,
        1,
        "request",
        "7fffffff 0001 61",
        (("TOO_MANY_ELEMENTS", 0, "topics"),),
        {"topics": [{"name": "a"}]},
    ),
    Malformed(
        "huge compact array", 3, 9, "request", "ffffffff0f", (("TOO_MANY_ELEMENTS", 0, "topics"),), {"topics": []}
    ),
    Malformed(
        "huge array inside another",
        *(19, 0, "request", "00000001 0001 74 00000001 0001 7fffffff 00000000"),
        (("TOO_MANY_ELEMENTS", 13, "topics[0].assignments"),),
        {
            "topics": [
                {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [{"partition_index": 0}]}
            ]
        },
    ),
    Malformed(
        "array of rows that are not all there",
        *(16, 0, "response", "0000 00000002 0001 67 0001 70 0001"),
        (("LENGTH_INVALID", 12, "groups[1].group_id"),),
        {"error_code": 0, "groups": [{"group_id": "g", "protocol_type": "p"}]},
    ),
    # nulls and lengths
    Malformed(
        "compact length 0, no null",
        *(76, 1, "request", "00 026d 00000000 00 00 00"),
        (("NULL_NOT_ALLOWED", 0, "group_id"),),
        {"group_id": None, "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": None},
    ),
    Malformed(
        "string of length -1, no null",
        *(12, 0, "request", "ffff 00000001 0001 6d"),
        (("NULL_NOT_ALLOWED", 0, "group_id"),),
        {"group_id": None, "generation_id": 1, "member_id": "m"},
    ),
    Malformed("string longer than the frame", 12, 0, "request", "0020 67", (("LENGTH_INVALID", 0, "group_id"),), {}),
    Malformed(
        "compact string longer than the frame", 78, 1, "request", "2067", (("LENGTH_INVALID", 0, "group_id"),), {}
    ),
    Malformed(
        "bytes longer than the frame",
        *(14, 0, "response", "0000 7fffffff 0000"),
        (("LENGTH_INVALID", 2, "assignment"),),
        {"error_code": 0},
    ),
    Malformed(
        "bytes of length -1, no null",
        14,
        0,
        "response",
        "0000 ffffffff",
        (("NULL_NOT_ALLOWED", 2, "assignment"),),
        {"error_code": 0, "assignment": None},
    ),
    Malformed(
        "records longer than the frame",
        *(0, 3, "request", "ffff 0001 00000001 00000001 0001 74 00000001 00000000 00010000 00"),
        (("LENGTH_INVALID", 23, "topic_data[0].partition_data[0].records"),),
        {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1,
            "topic_data": [{"name": "t", "partition_data": [{"index": 0}]}],
        },
    ),
    Malformed(
        "struct that is neither there nor null",
        *(76, 1, "response", "00000000 0000 00 00 00000001 00001388 01"),
        (("BODY_TOO_SHORT", 17, "assignment.topic_partitions"),),
        {
            "throttle_time_ms": 0,
            "error_code": 0,
            "error_message": None,
            "member_id": None,
            "member_epoch": 1,
            "heartbeat_interval_ms": 5000,
        },
    ),
    # varints
    Malformed("varint of six bytes", 78, 1, "request", "808080808001 67", (("VARINT_TOO_LONG", 0, "group_id"),), {}),
    Malformed("varint of 33 bits", 78, 1, "request", "8280808010 67", (("VARINT_TOO_LONG", 0, "group_id"),), {}),
    Malformed("varint that does not end", 78, 1, "request", "8080", (("BODY_TOO_SHORT", 0, "group_id"),), {}),
    Malformed(
        "tag of six bytes",
        18,
        3,
        "request",
        "0261 0262 01 ffffffffff01 00",
        (("VARINT_TOO_LONG", 5, ""),),
        {"client_software_name": "a", "client_software_version": "b"},
    ),
    # tags
    Malformed(
        "one tag twice",
        *(18, 3, "request", "0261 0262 02 05 01 aa 05 01 bb"),
        (("TAGS_UNSORTED", 8, ""),),
        {"client_software_name": "a", "client_software_version": "b", "_tagged": {"5": b"\xbb"}},
    ),
    Malformed(
        "tags out of order",
        *(18, 3, "request", "0261 0262 02 07 00 05 00"),
        (("TAGS_UNSORTED", 7, ""),),
        {"client_software_name": "a", "client_software_version": "b", "_tagged": {"7": b"", "5": b""}},
    ),
    Malformed(
        "tag of a later version",
        *(1, 12, "request", FETCH + "01 01 01 01 01 02 aabb"),
        (("TAG_OF_OTHER_VERSION", 29, "replica_state"),),
        {**NO_TOPICS, "_tagged": {"1": b"\xaa\xbb"}},
    ),
    Malformed(
        "tag longer than its content",
        *(1, 12, "request", FETCH + "01 01 01 01 00 04 0263 0000"),
        (("TAG_LENGTH_MISMATCH", 31, "cluster_id"),),
        {**NO_TOPICS, "cluster_id": "c"},
    ),
    Malformed(
        "tag shorter than its content",
        *(1, 12, "request", FETCH + "01 01 01 01 00 02 0363 63"),
        (("TAG_LENGTH_MISMATCH", 31, "cluster_id"),),
        NO_TOPICS,
    ),
    Malformed(
        "tag longer than the struct in it",
        *(1, 12, "response", FETCHED + "01 01 0a 00000001 00000002 00 00 00 00"),
        (("TAG_LENGTH_MISMATCH", 53, "responses[0].partitions[0].current_leader"),),
        {
            **{"throttle_time_ms": 0, "error_code": 0, "session_id": 0},
            "responses": [
                {"topic": "t", "partitions": [{**FETCHED_READ, "current_leader": {"leader_id": 1, "leader_epoch": 2}}]}
            ],
        },
    ),
    Malformed(
        "more tags than bytes",
        18,
        3,
        "request",
        "0261 0262 ffffffff0f 05 00",
        (("BODY_TOO_SHORT", 11, ""),),
        {"client_software_name": "a", "client_software_version": "b", "_tagged": {"5": b""}},
    ),
    Malformed(
        "tag that leaves the frame",
        18,
        3,
        "request",
        "0261 0262 01 05 09 aa",
        (("LENGTH_INVALID", 5, ""),),
        {"client_software_name": "a", "client_software_version": "b"},
    ),
    # text
    Malformed(
        "string that is no UTF-8",
        12,
        0,
        "request",
        "0002 fffe 00000001 0001 6d",
        (("NOT_UTF8", 0, "group_id"),),
        {"group_id": "\\xff\\xfe", "generation_id": 1, "member_id": "m"},
    ),
    Malformed(
        "half a character",
        78,
        1,
        "request",
        "02c3 026d",
        (("NOT_UTF8", 0, "group_id"), ("BODY_TOO_SHORT", 4, "share_session_epoch")),
        {"group_id": "\\xc3", "member_id": "m"},
    ),
    # too much, too little
    Malformed(
        "bytes left",
        12,
        0,
        "request",
        "0001 67 00000001 0001 6d 0000",
        (("TRAILING_BYTES", 10, ""),),
        {"group_id": "g", "generation_id": 1, "member_id": "m"},
    ),
    Malformed("nothing at all", 12, 0, "request", "", (("BODY_TOO_SHORT", 0, "group_id"),), {}),
    Malformed(
        "a number cut in two",
        12,
        0,
        "request",
        "0001 67 0000",
        (("BODY_TOO_SHORT", 3, "generation_id"),),
        {"group_id": "g"},
    ),
    Malformed(
        "no tag section",
        78,
        1,
        "request",
        SHARE_FETCH + "00000000 00000000 00100000 00000000 00000000 01 01",
        (("BODY_TOO_SHORT", 30, ""),),
        SHARE_WHOLE,
    ),
)
