"""DescribeAcls (API 29): an administrator lists access rules."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import AclOperation, AclPermissionType, ErrorCode, PatternType, ResourceType

acl_description = struct(
    string("principal"),
    string("host"),
    int8("operation", enum=AclOperation),
    int8("permission_type", enum=AclPermissionType),
)
resource = struct(
    int8("resource_type", enum=ResourceType),
    string("resource_name"),
    int8("pattern_type", versions="1+", default=3, enum=PatternType),
    array("acls", acl_description),
)

DISSECTOR = api(
    29,
    "DescribeAcls",
    versions="0-3",
    flexible="2+",
    kip="KIP-140",
    request=struct(
        int8("resource_type_filter", enum=ResourceType),
        string("resource_name_filter", nullable="0+"),
        int8("pattern_type_filter", versions="1+", default=3, enum=PatternType),
        string("principal_filter", nullable="0+"),
        string("host_filter", nullable="0+"),
        int8("operation", enum=AclOperation),
        int8("permission_type", enum=AclPermissionType),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("resources", resource),
    ),
)
