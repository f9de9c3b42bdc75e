"""PushTelemetry (API 72): a client sends its metrics, in OpenTelemetry's format."""

from kshark.schema import api, boolean, bytes_, int8, int16, int32, struct, uuid
from kshark_dissectors.enums import CompressionType, ErrorCode

DISSECTOR = api(
    72,
    "PushTelemetry",
    versions="0",
    flexible="0+",
    kip="KIP-714",
    request=struct(
        uuid("client_instance_id"),
        int32("subscription_id"),
        boolean("terminating"),
        int8("compression_type", enum=CompressionType),
        bytes_("metrics"),
    ),
    response=struct(int32("throttle_time_ms"), int16("error_code", enum=ErrorCode)),
)
