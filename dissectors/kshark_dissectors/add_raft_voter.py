"""AddRaftVoter (API 80): an administrator adds a voter to the metadata quorum."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    80,
    "AddRaftVoter",
    versions="0-1",
    flexible="0+",
    kip="KIP-853",
    request=struct(
        string("cluster_id", nullable="0+"),
        int32("timeout_ms"),
        int32("voter_id"),
        uuid("voter_directory_id"),
        array("listeners", struct(string("name"), string("host"), uint16("port"))),
        boolean("ack_when_committed", versions="1+", default=True),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
