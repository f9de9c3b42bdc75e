"""StreamsGroupTopologyDescriptionUpdate (API 93): a member describes the topology of its Kafka Streams group."""

from kshark.schema import api, int16, int32, named, string, struct
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.streams_structs import topology_description

DISSECTOR = api(
    93,
    "StreamsGroupTopologyDescriptionUpdate",
    versions="0",
    flexible="0+",
    kip="KIP-1331",
    request=struct(
        string("group_id"),
        string("member_id"),
        int32("topology_epoch"),
        named("topology_description", topology_description),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
