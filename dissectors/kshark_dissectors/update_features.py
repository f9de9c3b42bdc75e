"""UpdateFeatures (API 57): an administrator moves the cluster's features to other versions."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode, UpgradeType

feature_update_key = struct(
    string("feature"),
    int16("max_version_level"),
    boolean("allow_downgrade", versions="0"),
    int8("upgrade_type", versions="1+", default=1, enum=UpgradeType),
)
updatable_feature_result = struct(
    string("feature"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    57,
    "UpdateFeatures",
    versions="0-2",
    flexible="0+",
    kip="KIP-584",
    request=struct(
        int32("timeout_ms", default=60000),
        array("feature_updates", feature_update_key),
        boolean("validate_only", versions="1+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("results", updatable_feature_result, versions="0-1"),
    ),
)
