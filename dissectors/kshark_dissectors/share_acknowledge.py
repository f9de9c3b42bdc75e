"""ShareAcknowledge (API 79): a member of a share group acknowledges records without fetching."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.structs import acknowledgement_batch, node_endpoint

acknowledge_topic = struct(
    uuid("topic_id"),
    array("partitions", struct(int32("partition_index"), array("acknowledgement_batches", acknowledgement_batch))),
)
partition_data = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    struct(int32("leader_id"), int32("leader_epoch"), name="current_leader"),
)

DISSECTOR = api(
    79,
    "ShareAcknowledge",
    versions="0-2",
    flexible="0+",
    kip="KIP-932",
    early_access="0",
    request=struct(
        string("group_id", nullable="0+"),
        string("member_id", nullable="0+"),
        int32("share_session_epoch", about="-1 closes the session"),
        boolean("is_renew_ack", versions="2+"),
        array("topics", acknowledge_topic),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        int32("acquisition_lock_timeout_ms", versions="2+"),
        array("responses", struct(uuid("topic_id"), array("partitions", partition_data))),
        array("node_endpoints", node_endpoint),
    ),
)
