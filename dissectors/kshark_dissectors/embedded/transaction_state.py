"""Records of `__transaction_state`: where each transactional id stands (KIP-98; KIP-890 for version 1). Kafka:
TransactionLog."""

from kshark.places import Log, Numbers, Structure
from kshark.schema import array, int8, int16, int32, int64, layout, string, struct
from kshark_dissectors.embedded.states import TransactionState

TRANSACTION_LOG_KEY = layout(
    "TransactionLogKey", versions="0", flexible="none", fields=struct(string("transactional_id"))
)

TRANSACTION_LOG_VALUE = layout(
    "TransactionLogValue",
    versions="0-1",
    flexible="1+",
    fields=struct(
        int64("producer_id"),
        int64("previous_producer_id", versions="1+", tag=0, default=-1),
        int64("next_producer_id", versions="1+", tag=1, default=-1),
        int16("producer_epoch"),
        int16("next_producer_epoch", versions="1+", tag=3, default=-1),
        int32("transaction_timeout_ms"),
        int8("transaction_status", enum=TransactionState),
        array("transaction_partitions", struct(string("topic"), array("partition_ids", int32())), nullable="0+"),
        int64("transaction_last_update_timestamp_ms"),
        int64("transaction_start_timestamp_ms"),
        int16("client_transaction_version", versions="1+", tag=2),
    ),
)

TRANSACTION_STATE = Log({0: (TRANSACTION_LOG_KEY, Structure(TRANSACTION_LOG_VALUE))}, key=Numbers(("type",)))
