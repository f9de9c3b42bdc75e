"""The header before every body: the request header (versions 0 to 2) and the response header (0 and 1).

Which version belongs to which API version: `Api.request_header_version` and `Api.response_header_version`. Source:
Kafka protocol guide, "Headers"; KIP-482 (tagged fields)."""

from kshark.schema import int16, int32, layout, string, struct
from kshark_dissectors.enums import ApiKey

REQUEST_HEADER = layout(
    "RequestHeader",
    versions="0-2",
    flexible="2+",
    fields=struct(
        int16("request_api_key", enum=ApiKey),
        int16("request_api_version"),
        int32("correlation_id"),
        string(
            "client_id",
            versions="1+",
            nullable="1+",
            flexible="none",
            about="length in two bytes even in version 2, so that any broker can read any ApiVersions request",
        ),
    ),
)

RESPONSE_HEADER = layout("ResponseHeader", versions="0-1", flexible="1+", fields=struct(int32("correlation_id")))
