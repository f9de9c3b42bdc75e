"""Records of `__cluster_metadata` about ACLs, quotas, credentials and delegation tokens. Kafka:
org.apache.kafka.common.metadata."""

from kshark.schema import SECRET, array, boolean, bytes_, float64, int8, int32, int64, layout, string, struct, uuid
from kshark_dissectors.enums import AclOperation, AclPermissionType, PatternType, ResourceType, ScramMechanism

ACCESS_CONTROL_ENTRY = layout(
    "AccessControlEntryRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        uuid("id"),
        int8("resource_type", enum=ResourceType),
        string("resource_name"),
        int8("pattern_type", enum=PatternType),
        string("principal"),
        string("host"),
        int8("operation", enum=AclOperation),
        int8("permission_type", enum=AclPermissionType),
    ),
)

REMOVE_ACCESS_CONTROL_ENTRY = layout(
    "RemoveAccessControlEntryRecord", versions="0", flexible="0+", fields=struct(uuid("id"))
)

CLIENT_QUOTA = layout(
    "ClientQuotaRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        array(
            "entity",
            struct(string("entity_type"), string("entity_name", nullable="0+", about="null: the default of its type")),
        ),
        string("key"),
        float64("value"),
        boolean("remove"),
    ),
)

USER_SCRAM_CREDENTIAL = layout(
    "UserScramCredentialRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        string("name"),
        int8("mechanism", enum=ScramMechanism),
        bytes_("salt", secret=SECRET),
        bytes_("stored_key", secret=SECRET),
        bytes_("server_key", secret=SECRET),
        int32("iterations"),
    ),
)

REMOVE_USER_SCRAM_CREDENTIAL = layout(
    "RemoveUserScramCredentialRecord",
    versions="0",
    flexible="0+",
    fields=struct(string("name"), int8("mechanism", enum=ScramMechanism)),
)

DELEGATION_TOKEN = layout(
    "DelegationTokenRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        string("owner"),
        string("requester"),
        array("renewers", string()),
        int64("issue_timestamp"),
        int64("max_timestamp"),
        int64("expiration_timestamp"),
        string("token_id"),
    ),
)

REMOVE_DELEGATION_TOKEN = layout(
    "RemoveDelegationTokenRecord", versions="0", flexible="0+", fields=struct(string("token_id"))
)
