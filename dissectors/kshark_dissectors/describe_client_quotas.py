"""DescribeClientQuotas (API 48): which quotas apply to which clients."""

from kshark.schema import api, array, boolean, float64, int8, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode, QuotaMatchType

component_data = struct(
    string("entity_type"),
    int8("match_type", enum=QuotaMatchType),
    string("match", nullable="0+"),
)
entry_data = struct(
    array("entity", struct(string("entity_type"), string("entity_name", nullable="0+"))),
    array("values", struct(string("key"), float64("value"))),
)

DISSECTOR = api(
    48,
    "DescribeClientQuotas",
    versions="0-1",
    flexible="1+",
    kip="KIP-546",
    request=struct(array("components", component_data), boolean("strict")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("entries", entry_data, nullable="0+"),
    ),
)
