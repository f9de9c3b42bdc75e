"""CreateDelegationToken (API 38): a user gets a delegation token."""

from kshark.schema import SECRET, api, array, bytes_, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    38,
    "CreateDelegationToken",
    versions="0-3",
    flexible="2+",
    kip="KIP-48",
    request=struct(
        string("owner_principal_type", versions="3+", nullable="3+"),
        string("owner_principal_name", versions="3+", nullable="3+"),
        array("renewers", struct(string("principal_type"), string("principal_name"))),
        int64("max_lifetime_ms"),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        string("principal_type"),
        string("principal_name"),
        string("token_requester_principal_type", versions="3+"),
        string("token_requester_principal_name", versions="3+"),
        int64("issue_timestamp_ms"),
        int64("expiry_timestamp_ms"),
        int64("max_timestamp_ms"),
        string("token_id"),
        bytes_("hmac", secret=SECRET),
        int32("throttle_time_ms"),
    ),
)
