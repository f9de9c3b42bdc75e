"""DescribeGroups (API 15): state, members and assignments of classic groups."""

from kshark.schema import api, array, boolean, bytes_, int16, int32, string, struct
from kshark_dissectors.enums import AclOperation, ErrorCode

described_group_member = struct(
    string("member_id"),
    string("group_instance_id", versions="4+", nullable="4+"),
    string("client_id"),
    string("client_host"),
    bytes_("member_metadata"),
    bytes_("member_assignment"),
)
described_group = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", versions="6+", nullable="6+"),
    string("group_id"),
    string("group_state"),
    string("protocol_type"),
    string("protocol_data"),
    array("members", described_group_member),
    int32("authorized_operations", versions="3+", default=-2147483648, enum=AclOperation, bits=True),
)

DISSECTOR = api(
    15,
    "DescribeGroups",
    versions="0-6",
    flexible="5+",
    request=struct(array("groups", string()), boolean("include_authorized_operations", versions="3+")),
    response=struct(int32("throttle_time_ms", versions="1+"), array("groups", described_group)),
)
