"""UpdateRaftVoter (API 82): a voter of the metadata quorum updates its endpoints and versions."""

from kshark.schema import api, array, int16, int32, string, struct, uint16, uuid
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    82,
    "UpdateRaftVoter",
    versions="0",
    flexible="0+",
    kip="KIP-853",
    request=struct(
        string("cluster_id", nullable="0+"),
        int32("current_leader_epoch"),
        int32("voter_id"),
        uuid("voter_directory_id"),
        array("listeners", struct(string("name"), string("host"), uint16("port"))),
        struct(int16("min_supported_version"), int16("max_supported_version"), name="kraft_version_feature"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        struct(
            int32("leader_id", default=-1),
            int32("leader_epoch", default=-1),
            string("host"),
            int32("port"),
            name="current_leader",
            tag=0,
        ),
    ),
)
