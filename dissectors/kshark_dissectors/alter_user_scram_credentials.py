"""AlterUserScramCredentials (API 51): an administrator sets and deletes SCRAM credentials."""

from kshark.schema import SECRET, api, array, bytes_, int8, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode, ScramMechanism

scram_credential_upsertion = struct(
    string("name"),
    int8("mechanism", enum=ScramMechanism),
    int32("iterations"),
    bytes_("salt", secret=SECRET),
    bytes_("salted_password", secret=SECRET),
)
result = struct(string("user"), int16("error_code", enum=ErrorCode), string("error_message", nullable="0+"))

DISSECTOR = api(
    51,
    "AlterUserScramCredentials",
    versions="0",
    flexible="0+",
    kip="KIP-554",
    request=struct(
        array("deletions", struct(string("name"), int8("mechanism", enum=ScramMechanism))),
        array("upsertions", scram_credential_upsertion),
    ),
    response=struct(int32("throttle_time_ms"), array("results", result)),
)
