"""Fetch (API 1): a consumer or a follower reads record batches, since version 7 within a fetch session (KIP-227)."""

from kshark.schema import api, array, int8, int16, int32, int64, records, string, struct, uuid
from kshark_dissectors.enums import ErrorCode, IsolationLevel
from kshark_dissectors.structs import node_endpoint

partition = struct(
    int32("partition"),
    int32("current_leader_epoch", versions="9+", default=-1),
    int64("fetch_offset"),
    int32("last_fetched_epoch", versions="12+", default=-1),
    int64("log_start_offset", versions="5+", default=-1),
    int32("partition_max_bytes"),
    uuid("replica_directory_id", versions="17+", tag=0),
    int64("high_watermark", versions="18+", tag=1, default=9223372036854775807),
)
topic = struct(
    string("topic", versions="0-12"),
    uuid("topic_id", versions="13+"),
    array("partitions", partition),
)
forgotten_topic = struct(
    string("topic", versions="7-12"),
    uuid("topic_id", versions="13+"),
    array("partitions", int32()),
)
partition_data = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    int64("high_watermark"),
    int64("last_stable_offset", versions="4+", default=-1),
    int64("log_start_offset", versions="5+", default=-1),
    struct(int32("epoch", default=-1), int64("end_offset", default=-1), name="diverging_epoch", versions="12+", tag=0),
    struct(
        int32("leader_id", default=-1), int32("leader_epoch", default=-1), name="current_leader", versions="12+", tag=1
    ),
    struct(int64("end_offset", default=-1), int32("epoch", default=-1), name="snapshot_id", versions="12+", tag=2),
    array("aborted_transactions", struct(int64("producer_id"), int64("first_offset")), versions="4+", nullable="4+"),
    int32("preferred_read_replica", versions="11+", default=-1),
    records("records", nullable="0+"),
)
fetchable_topic = struct(
    string("topic", versions="0-12"),
    uuid("topic_id", versions="13+"),
    array("partitions", partition_data),
)

DISSECTOR = api(
    1,
    "Fetch",
    versions="0-18",
    flexible="12+",
    request=struct(
        string("cluster_id", versions="12+", nullable="12+", tag=0),
        int32("replica_id", versions="0-14", default=-1),
        struct(
            int32("replica_id", default=-1),
            int64("replica_epoch", default=-1),
            name="replica_state",
            versions="15+",
            tag=1,
        ),
        int32("max_wait_ms"),
        int32("min_bytes"),
        int32("max_bytes", versions="3+", default=2147483647),
        int8("isolation_level", versions="4+", enum=IsolationLevel),
        int32("session_id", versions="7+"),
        int32("session_epoch", versions="7+", default=-1),
        array("topics", topic),
        array("forgotten_topics_data", forgotten_topic, versions="7+"),
        string("rack_id", versions="11+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="1+"),
        int16("error_code", versions="7+", enum=ErrorCode),
        int32("session_id", versions="7+"),
        array("responses", fetchable_topic),
        array("node_endpoints", node_endpoint, versions="16+", tag=0),
    ),
)
