"""DescribeUserScramCredentials (API 50): which SCRAM credentials users have."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode, ScramMechanism

result = struct(
    string("user"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    array("credential_infos", struct(int8("mechanism", enum=ScramMechanism), int32("iterations"))),
)

DISSECTOR = api(
    50,
    "DescribeUserScramCredentials",
    versions="0",
    flexible="0+",
    kip="KIP-554",
    request=struct(array("users", struct(string("name")), nullable="0+")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("results", result),
    ),
)
