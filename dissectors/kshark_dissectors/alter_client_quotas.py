"""AlterClientQuotas (API 49): an administrator changes quotas of clients."""

from kshark.schema import api, array, boolean, float64, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

entry_data = struct(
    array("entity", struct(string("entity_type"), string("entity_name", nullable="0+"))),
    array("ops", struct(string("key"), float64("value"), boolean("remove"))),
)
entry_data_response = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    array("entity", struct(string("entity_type"), string("entity_name", nullable="0+"))),
)

DISSECTOR = api(
    49,
    "AlterClientQuotas",
    versions="0-1",
    flexible="1+",
    kip="KIP-546",
    request=struct(array("entries", entry_data), boolean("validate_only")),
    response=struct(int32("throttle_time_ms"), array("entries", entry_data_response)),
)
