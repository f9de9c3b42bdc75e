"""RemoveRaftVoter (API 81): an administrator removes a voter from the metadata quorum."""

from kshark.schema import api, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    81,
    "RemoveRaftVoter",
    versions="0",
    flexible="0+",
    kip="KIP-853",
    request=struct(string("cluster_id", nullable="0+"), int32("voter_id"), uuid("voter_directory_id")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
