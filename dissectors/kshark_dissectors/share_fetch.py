"""ShareFetch (API 78): a member of a share group acquires records, and acknowledges earlier ones on the way."""

from kshark.schema import api, array, boolean, int8, int16, int32, int64, records, string, struct, uuid
from kshark_dissectors.enums import ErrorCode, ShareAcquireMode
from kshark_dissectors.structs import acknowledgement_batch, node_endpoint

fetch_partition = struct(
    int32("partition_index"),
    int32("partition_max_bytes", versions="0"),
    array("acknowledgement_batches", acknowledgement_batch),
)
partition_data = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int16("acknowledge_error_code", enum=ErrorCode),
    string("acknowledge_error_message", nullable="0+"),
    struct(int32("leader_id"), int32("leader_epoch"), name="current_leader"),
    records("records", nullable="0"),
    array("acquired_records", struct(int64("first_offset"), int64("last_offset"), int16("delivery_count"))),
)

DISSECTOR = api(
    78,
    "ShareFetch",
    versions="0-2",
    flexible="0+",
    kip="KIP-932",
    early_access="0",
    request=struct(
        string("group_id", nullable="0+"),
        string("member_id", nullable="0+"),
        int32("share_session_epoch", about="0 opens a session, -1 closes it"),
        int32("max_wait_ms"),
        int32("min_bytes"),
        int32("max_bytes", default=2147483647),
        int32("max_records", versions="1+"),
        int32("batch_size", versions="1+"),
        int8("share_acquire_mode", versions="2+", enum=ShareAcquireMode),
        boolean("is_renew_ack", versions="2+"),
        array("topics", struct(uuid("topic_id"), array("partitions", fetch_partition))),
        array("forgotten_topics_data", struct(uuid("topic_id"), array("partitions", int32()))),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        int32("acquisition_lock_timeout_ms", versions="1+"),
        array("responses", struct(uuid("topic_id"), array("partitions", partition_data))),
        array("node_endpoints", node_endpoint),
    ),
)
