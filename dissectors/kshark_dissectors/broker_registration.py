"""BrokerRegistration (API 62): a broker announces itself to the controller."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode, SecurityProtocol

listener = struct(
    string("name"),
    string("host"),
    uint16("port"),
    int16("security_protocol", enum=SecurityProtocol),
)

DISSECTOR = api(
    62,
    "BrokerRegistration",
    versions="0-4",
    flexible="0+",
    kip="KIP-631",
    request=struct(
        int32("broker_id"),
        string("cluster_id"),
        uuid("incarnation_id"),
        array("listeners", listener),
        array("features", struct(string("name"), int16("min_supported_version"), int16("max_supported_version"))),
        string("rack", nullable="0+"),
        boolean("is_migrating_zk_broker", versions="1+"),
        array("log_dirs", uuid(), versions="2+"),
        int64("previous_broker_epoch", versions="3+", default=-1),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        int64("broker_epoch", default=-1),
    ),
)
