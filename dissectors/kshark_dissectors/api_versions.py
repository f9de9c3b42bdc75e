"""ApiVersions (API 18): what the broker speaks, and since version 3 who the client is (KIP-511)."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ApiKey, ErrorCode

DISSECTOR = api(
    18,
    "ApiVersions",
    versions="0-5",
    flexible="3+",
    kip="KIP-35",
    response_header=0,
    fallback=(35, 0),
    software=("client_software_name", "client_software_version"),
    repeated=True,
    request=struct(
        string("client_software_name", versions="3+"),
        string("client_software_version", versions="3+"),
        string("cluster_id", versions="5+", nullable="5+"),
        int32("node_id", versions="5+", default=-1),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("api_keys", struct(int16("api_key", enum=ApiKey), int16("min_version"), int16("max_version"))),
        int32("throttle_time_ms", versions="1+"),
        array(
            "supported_features",
            struct(string("name"), int16("min_version"), int16("max_version")),
            versions="3+",
            tag=0,
        ),
        int64("finalized_features_epoch", versions="3+", tag=1, default=-1),
        array(
            "finalized_features",
            struct(string("name"), int16("max_version_level"), int16("min_version_level")),
            versions="3+",
            tag=2,
        ),
        boolean("zk_migration_ready", versions="3+", tag=3),
    ),
)
