"""UpdateMetadata (API 6): the controller tells a broker who leads what (ZooKeeper mode, up to 3.9)."""

from kshark.schema import api, array, boolean, int8, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ControlRequestType, ErrorCode, SecurityProtocol

partition_state = struct(
    string("topic_name", versions="0-4"),
    int32("partition_index"),
    int32("controller_epoch"),
    int32("leader"),
    int32("leader_epoch"),
    array("isr", int32()),
    int32("zk_version"),
    array("replicas", int32()),
    array("offline_replicas", int32(), versions="4+"),
)
topic_state = struct(
    string("topic_name"),
    uuid("topic_id", versions="7+", name_in="topic_name"),
    array("partition_states", partition_state),
)
endpoint = struct(
    int32("port"),
    string("host"),
    string("listener", versions="3+"),
    int16("security_protocol", enum=SecurityProtocol),
)
broker = struct(
    int32("id"),
    string("v0_host", versions="0"),
    int32("v0_port", versions="0"),
    array("endpoints", endpoint, versions="1+"),
    string("rack", versions="2+", nullable="2+"),
)

DISSECTOR = api(
    6,
    "UpdateMetadata",
    versions="0-8",
    flexible="6+",
    request=struct(
        int32("controller_id"),
        boolean("is_kraft_controller", versions="8+"),
        int8("type", versions="8+", tag=0, enum=ControlRequestType),
        int32("controller_epoch"),
        int64("broker_epoch", versions="5+", default=-1),
        array("ungrouped_partition_states", partition_state, versions="0-4"),
        array("topic_states", topic_state, versions="5+"),
        array("live_brokers", broker),
    ),
    response=struct(int16("error_code", enum=ErrorCode)),
)
