"""DescribeConfigs (API 32): the configuration of topics, brokers, groups and client metrics."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct
from kshark_dissectors.enums import ConfigResourceType, ConfigSource, ConfigType, ErrorCode
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

resource = struct(
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
    array("configuration_keys", string(), nullable="0+"),
)
synonym = struct(
    string("name"),
    string("value", nullable="1+", secret=SENSITIVE_CONFIG),
    int8("source", enum=ConfigSource),
)
resource_result = struct(
    string("name"),
    string("value", nullable="0+", secret=SENSITIVE_CONFIG),
    boolean("read_only"),
    boolean("is_default", versions="0"),
    int8("config_source", versions="1+", default=-1, enum=ConfigSource),
    boolean("is_sensitive"),
    array("synonyms", synonym, versions="1+"),
    int8("config_type", versions="3+", enum=ConfigType),
    string("documentation", versions="3+", nullable="3+"),
)
result = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int8("resource_type", enum=ConfigResourceType),
    string("resource_name"),
    array("configs", resource_result),
)

DISSECTOR = api(
    32,
    "DescribeConfigs",
    versions="0-4",
    flexible="4+",
    kip="KIP-133",
    request=struct(
        array("resources", resource),
        boolean("include_synonyms", versions="1+"),
        boolean("include_documentation", versions="3+"),
    ),
    response=struct(int32("throttle_time_ms"), array("results", result)),
)
