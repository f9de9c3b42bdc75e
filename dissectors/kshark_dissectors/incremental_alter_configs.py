"""IncrementalAlterConfigs (API 44): an administrator changes single configuration values."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct
from kshark_dissectors.enums import ConfigOperation, ConfigResourceType, ErrorCode
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

alterable_config = struct(
    string("name"),
    int8("config_operation", enum=ConfigOperation),
    string("value", nullable="0+", secret=SENSITIVE_CONFIG),
)
alter_configs_resource = struct(
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
    array("configs", alterable_config),
)
alter_configs_resource_response = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
)

DISSECTOR = api(
    44,
    "IncrementalAlterConfigs",
    versions="0-1",
    flexible="1+",
    kip="KIP-339",
    request=struct(array("resources", alter_configs_resource), boolean("validate_only")),
    response=struct(int32("throttle_time_ms"), array("responses", alter_configs_resource_response)),
)
