"""Envelope (API 58): a broker forwards a client's request to the controller; the bytes inside are whole messages with
headers."""

from kshark.schema import api, bytes_, int16, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    58,
    "Envelope",
    versions="0",
    flexible="0+",
    kip="KIP-590",
    request=struct(
        bytes_("request_data"),
        bytes_("request_principal", nullable="0+"),
        bytes_("client_host_address"),
    ),
    response=struct(bytes_("response_data", nullable="0+"), int16("error_code", enum=ErrorCode)),
)
