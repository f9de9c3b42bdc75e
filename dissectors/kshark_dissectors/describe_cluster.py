"""DescribeCluster (API 60): brokers or controllers of the cluster, and which of them is the controller."""

from kshark.schema import api, array, boolean, int8, int16, int32, string, struct
from kshark_dissectors.enums import AclOperation, EndpointType, ErrorCode

broker = struct(
    int32("broker_id"),
    string("host"),
    int32("port"),
    string("rack", nullable="0+"),
    boolean("is_fenced", versions="2+"),
)

DISSECTOR = api(
    60,
    "DescribeCluster",
    versions="0-2",
    flexible="0+",
    kip="KIP-700",
    request=struct(
        boolean("include_cluster_authorized_operations"),
        int8("endpoint_type", versions="1+", default=1, enum=EndpointType),
        boolean("include_fenced_brokers", versions="2+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        int8("endpoint_type", versions="1+", default=1, enum=EndpointType),
        string("cluster_id"),
        int32("controller_id", default=-1),
        array("brokers", broker),
        int32("cluster_authorized_operations", default=-2147483648, enum=AclOperation, bits=True),
    ),
)
