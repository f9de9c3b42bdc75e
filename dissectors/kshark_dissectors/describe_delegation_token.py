"""DescribeDelegationToken (API 41): the delegation tokens that a user may see."""

from kshark.schema import SECRET, api, array, bytes_, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

described_delegation_token = struct(
    string("principal_type"),
    string("principal_name"),
    string("token_requester_principal_type", versions="3+"),
    string("token_requester_principal_name", versions="3+"),
    int64("issue_timestamp"),
    int64("expiry_timestamp"),
    int64("max_timestamp"),
    string("token_id"),
    bytes_("hmac", secret=SECRET),
    array("renewers", struct(string("principal_type"), string("principal_name"))),
)

DISSECTOR = api(
    41,
    "DescribeDelegationToken",
    versions="0-3",
    flexible="2+",
    kip="KIP-48",
    request=struct(
        array("owners", struct(string("principal_type"), string("principal_name")), nullable="0+"),
    ),
    response=struct(
        int16("error_code", enum=ErrorCode),
        array("tokens", described_delegation_token),
        int32("throttle_time_ms"),
    ),
)
