"""AlterConfigs (API 33): an administrator replaces whole configurations."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct
from kshark_dissectors.enums import ConfigResourceType, ErrorCode
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

resource = struct(
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
    array("configs", struct(string("name"), string("value", nullable="0+", secret=SENSITIVE_CONFIG))),
)
resource_response = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
)

DISSECTOR = api(
    33,
    "AlterConfigs",
    versions="0-2",
    flexible="2+",
    kip="KIP-133",
    request=struct(array("resources", resource), boolean("validate_only")),
    response=struct(int32("throttle_time_ms"), array("responses", resource_response)),
)
