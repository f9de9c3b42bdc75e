"""DeleteAcls (API 31): an administrator removes access rules."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import AclOperation, AclPermissionType, ErrorCode, PatternType, ResourceType

delete_acls_filter = struct(
    int8("resource_type_filter", enum=ResourceType),
    string("resource_name_filter", nullable="0+"),
    int8("pattern_type_filter", versions="1+", default=3, enum=PatternType),
    string("principal_filter", nullable="0+"),
    string("host_filter", nullable="0+"),
    int8("operation", enum=AclOperation),
    int8("permission_type", enum=AclPermissionType),
)
matching_acl = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    int8("resource_type", enum=ResourceType),
    string("resource_name"),
    int8("pattern_type", versions="1+", default=3, enum=PatternType),
    string("principal"),
    string("host"),
    int8("operation", enum=AclOperation),
    int8("permission_type", enum=AclPermissionType),
)
filter_result = struct(
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
    array("matching_acls", matching_acl),
)

DISSECTOR = api(
    31,
    "DeleteAcls",
    versions="0-3",
    flexible="2+",
    kip="KIP-140",
    request=struct(array("filters", delete_acls_filter)),
    response=struct(int32("throttle_time_ms"), array("filter_results", filter_result)),
)
