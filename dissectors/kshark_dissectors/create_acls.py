"""CreateAcls (API 30): an administrator adds access rules."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import AclOperation, AclPermissionType, ErrorCode, PatternType, ResourceType

acl_creation = struct(
    int8("resource_type", enum=ResourceType),
    string("resource_name"),
    int8("resource_pattern_type", versions="1+", default=3, enum=PatternType),
    string("principal"),
    string("host"),
    int8("operation", enum=AclOperation),
    int8("permission_type", enum=AclPermissionType),
)

DISSECTOR = api(
    30,
    "CreateAcls",
    versions="0-3",
    flexible="2+",
    kip="KIP-140",
    request=struct(array("creations", acl_creation)),
    response=struct(
        int32("throttle_time_ms"),
        array("results", struct(int16("error_code", enum=ErrorCode), string("error_message", nullable="0+"))),
    ),
)
