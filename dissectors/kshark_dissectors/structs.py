"""Structures that several APIs carry in the same shape."""

from kshark.schema import array, int8, int16, int32, int64, string, struct
from kshark_dissectors.enums import AcknowledgeType, DeliveryState

#: A broker that became leader (KIP-951), so that the client need not ask for metadata.
node_endpoint = struct(
    int32("node_id"),
    string("host"),
    int32("port"),
    string("rack", nullable="0+"),
)

#: What a member of a share group says about a range of offsets, both ends included.
acknowledgement_batch = struct(
    int64("first_offset"),
    int64("last_offset"),
    array("acknowledge_types", int8(enum=AcknowledgeType), about="one for the whole range, or one for each offset"),
)

#: Records of a share partition in the same state, both ends included.
state_batch = struct(
    int64("first_offset"),
    int64("last_offset"),
    int8("delivery_state", enum=DeliveryState),
    int16("delivery_count"),
)
