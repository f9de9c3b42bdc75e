"""Records of `__cluster_metadata` about brokers and controllers. Kafka: org.apache.kafka.common.metadata."""

from kshark.schema import array, boolean, int8, int16, int32, int64, layout, string, struct, uint16, uuid
from kshark_dissectors.embedded.states import ControlledShutdownChange, FencingChange
from kshark_dissectors.enums import SecurityProtocol

endpoint = struct(
    string("name"),
    string("host"),
    uint16("port"),
    int16("security_protocol", enum=SecurityProtocol),
)
feature = struct(string("name"), int16("min_supported_version"), int16("max_supported_version"))

REGISTER_BROKER = layout(
    "RegisterBrokerRecord",
    versions="0-4",
    flexible="0+",
    fields=struct(
        int32("broker_id"),
        boolean("is_migrating_zk_broker", versions="2+"),
        uuid("incarnation_id"),
        int64("broker_epoch"),
        array("end_points", endpoint),
        array("features", feature),
        string("rack", nullable="0+"),
        boolean("fenced", default=True),
        boolean("in_controlled_shutdown", versions="1+"),
        array("log_dirs", uuid(), versions="3+", tag=0),
        array("cordoned_log_dirs", uuid(), versions="4+", nullable="4+", tag=1),
    ),
)

UNREGISTER_BROKER = layout(
    "UnregisterBrokerRecord", versions="0", flexible="0+", fields=struct(int32("broker_id"), int64("broker_epoch"))
)

FENCE_BROKER = layout("FenceBrokerRecord", versions="0", flexible="0+", fields=struct(int32("id"), int64("epoch")))

UNFENCE_BROKER = layout("UnfenceBrokerRecord", versions="0", flexible="0+", fields=struct(int32("id"), int64("epoch")))

BROKER_REGISTRATION_CHANGE = layout(
    "BrokerRegistrationChangeRecord",
    versions="0-3",
    flexible="0+",
    fields=struct(
        int32("broker_id"),
        int64("broker_epoch"),
        int8("fenced", tag=0, enum=FencingChange),
        int8("in_controlled_shutdown", versions="1+", tag=1, enum=ControlledShutdownChange),
        array("log_dirs", uuid(), versions="2+", tag=2),
        array("cordoned_log_dirs", uuid(), versions="3+", nullable="3+", tag=3),
    ),
)

REGISTER_CONTROLLER = layout(
    "RegisterControllerRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("controller_id"),
        uuid("incarnation_id"),
        boolean("zk_migration_ready"),
        array("end_points", endpoint),
        array("features", feature),
    ),
)

UNREGISTER_CONTROLLER = layout(
    "UnregisterControllerRecord", versions="0", flexible="0+", fields=struct(int32("controller_id"))
)

PRODUCER_IDS = layout(
    "ProducerIdsRecord",
    versions="0",
    flexible="0+",
    fields=struct(int32("broker_id"), int64("broker_epoch", default=-1), int64("next_producer_id")),
)
