"""SaslHandshake (API 17): which SASL mechanism the connection will use."""

from kshark.schema import api, array, int16, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    17,
    "SaslHandshake",
    versions="0-1",
    flexible="none",
    kip="KIP-43",
    then_raw="0",
    sasl="begins",
    request=struct(string("mechanism")),
    response=struct(int16("error_code", enum=ErrorCode), array("mechanisms", string())),
)
