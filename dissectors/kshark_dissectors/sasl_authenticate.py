"""SaslAuthenticate (API 36): one step of the SASL exchange."""

from kshark.schema import SECRET, api, bytes_, int16, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    36,
    "SaslAuthenticate",
    versions="0-2",
    flexible="2+",
    kip="KIP-152",
    sasl="continues",
    request=struct(bytes_("auth_bytes", secret=SECRET)),
    response=struct(
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        bytes_("auth_bytes", secret=SECRET),
        int64("session_lifetime_ms", versions="1+"),
    ),
)
