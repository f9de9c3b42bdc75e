"""GetTelemetrySubscriptions (API 71): a client asks which metrics to send."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct, uuid
from kshark_dissectors.enums import CompressionType, ErrorCode

DISSECTOR = api(
    71,
    "GetTelemetrySubscriptions",
    versions="0",
    flexible="0+",
    kip="KIP-714",
    request=struct(uuid("client_instance_id")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        uuid("client_instance_id"),
        int32("subscription_id"),
        array("accepted_compression_types", int8(enum=CompressionType)),
        int32("push_interval_ms"),
        int32("telemetry_max_bytes"),
        boolean("delta_temporality"),
        array("requested_metrics", string()),
    ),
)
