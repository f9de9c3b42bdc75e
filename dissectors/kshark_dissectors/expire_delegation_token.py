"""ExpireDelegationToken (API 40): a delegation token expires earlier."""

from kshark.schema import SECRET, api, bytes_, int16, int32, int64, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    40,
    "ExpireDelegationToken",
    versions="0-2",
    flexible="2+",
    kip="KIP-48",
    request=struct(bytes_("hmac", secret=SECRET), int64("expiry_time_period_ms")),
    response=struct(
        int16("error_code", enum=ErrorCode),
        int64("expiry_timestamp_ms"),
        int32("throttle_time_ms"),
    ),
)
