"""WriteTxnMarkers (API 27): the transaction coordinator has commit and abort markers written to partitions."""

from kshark.schema import api, array, boolean, int8, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

writable_txn_marker = struct(
    int64("producer_id"),
    int16("producer_epoch"),
    boolean("transaction_result"),
    array("topics", struct(string("name"), array("partition_indexes", int32()))),
    int32("coordinator_epoch"),
    int8("transaction_version", versions="2+"),
)
writable_txn_marker_topic_result = struct(
    string("name"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    27,
    "WriteTxnMarkers",
    versions="0-2",
    flexible="1+",
    kip="KIP-98",
    request=struct(array("markers", writable_txn_marker)),
    response=struct(
        array("markers", struct(int64("producer_id"), array("topics", writable_txn_marker_topic_result))),
    ),
)
