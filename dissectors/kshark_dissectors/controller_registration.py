"""ControllerRegistration (API 70): a controller announces itself to the active controller."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode, SecurityProtocol

listener = struct(
    string("name"),
    string("host"),
    uint16("port"),
    int16("security_protocol", enum=SecurityProtocol),
)

DISSECTOR = api(
    70,
    "ControllerRegistration",
    versions="0",
    flexible="0+",
    kip="KIP-919",
    request=struct(
        int32("controller_id"),
        uuid("incarnation_id"),
        boolean("zk_migration_ready"),
        array("listeners", listener),
        array("features", struct(string("name"), int16("min_supported_version"), int16("max_supported_version"))),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
