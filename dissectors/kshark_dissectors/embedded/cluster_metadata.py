"""Records of `__cluster_metadata`, the log of the controllers (KIP-500, KIP-630): every type, by its number.

Kafka: MetadataRecordSerde (frame version, type and version before each record), MetadataRecordType.
"""

from kshark.places import Log, Numbers, Structure
from kshark.schema import int8, int16, layout, string, struct
from kshark_dissectors.embedded import cluster_brokers as brokers
from kshark_dissectors.embedded import cluster_security as security
from kshark_dissectors.embedded import cluster_topics as topics
from kshark_dissectors.embedded.states import ZkMigrationState

FEATURE_LEVEL = layout(
    "FeatureLevelRecord", versions="0", flexible="0+", fields=struct(string("name"), int16("feature_level"))
)

NO_OP = layout("NoOpRecord", versions="0", flexible="0+", fields=struct())

ZK_MIGRATION_STATE = layout(
    "ZkMigrationStateRecord",
    versions="0",
    flexible="0+",
    fields=struct(int8("zk_migration_state", enum=ZkMigrationState)),
)

BEGIN_TRANSACTION = layout(
    "BeginTransactionRecord", versions="0", flexible="0+", fields=struct(string("name", nullable="0+", tag=0))
)

END_TRANSACTION = layout("EndTransactionRecord", versions="0", flexible="0+", fields=struct())

ABORT_TRANSACTION = layout(
    "AbortTransactionRecord", versions="0", flexible="0+", fields=struct(string("reason", nullable="0+", tag=0))
)

CLUSTER_METADATA = Log(
    {
        0: (None, Structure(brokers.REGISTER_BROKER, "numbers")),
        1: (None, Structure(brokers.UNREGISTER_BROKER, "numbers")),
        2: (None, Structure(topics.TOPIC, "numbers")),
        3: (None, Structure(topics.PARTITION, "numbers")),
        4: (None, Structure(topics.CONFIG, "numbers")),
        5: (None, Structure(topics.PARTITION_CHANGE, "numbers")),
        7: (None, Structure(brokers.FENCE_BROKER, "numbers")),
        8: (None, Structure(brokers.UNFENCE_BROKER, "numbers")),
        9: (None, Structure(topics.REMOVE_TOPIC, "numbers")),
        10: (None, Structure(security.DELEGATION_TOKEN, "numbers")),
        11: (None, Structure(security.USER_SCRAM_CREDENTIAL, "numbers")),
        12: (None, Structure(FEATURE_LEVEL, "numbers")),
        14: (None, Structure(security.CLIENT_QUOTA, "numbers")),
        15: (None, Structure(brokers.PRODUCER_IDS, "numbers")),
        17: (None, Structure(brokers.BROKER_REGISTRATION_CHANGE, "numbers")),
        18: (None, Structure(security.ACCESS_CONTROL_ENTRY, "numbers")),
        19: (None, Structure(security.REMOVE_ACCESS_CONTROL_ENTRY, "numbers")),
        20: (None, Structure(NO_OP, "numbers")),
        21: (None, Structure(ZK_MIGRATION_STATE, "numbers")),
        22: (None, Structure(security.REMOVE_USER_SCRAM_CREDENTIAL, "numbers")),
        23: (None, Structure(BEGIN_TRANSACTION, "numbers")),
        24: (None, Structure(END_TRANSACTION, "numbers")),
        25: (None, Structure(ABORT_TRANSACTION, "numbers")),
        26: (None, Structure(security.REMOVE_DELEGATION_TOKEN, "numbers")),
        27: (None, Structure(brokers.REGISTER_CONTROLLER, "numbers")),
        28: (None, Structure(topics.CLEAR_ELR, "numbers")),
        29: (None, Structure(brokers.UNREGISTER_CONTROLLER, "numbers")),
    },
    value=Numbers(("frame_version", "type", "version"), "uvarint"),
)
