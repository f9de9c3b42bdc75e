"""ListConfigResources (API 74): which resources have a configuration."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import ConfigResourceType, ErrorCode

config_resource = struct(
    string("resource_name"),
    int8("resource_type", versions="1+", default=16, enum=ConfigResourceType),
)

DISSECTOR = api(
    74,
    "ListConfigResources",
    versions="0-1",
    flexible="0+",
    kip="KIP-1142",
    request=struct(array("resource_types", int8(enum=ConfigResourceType), versions="1+")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        array("config_resources", config_resource),
    ),
)
