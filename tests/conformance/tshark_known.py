"""How far tshark 4.0.17 is a witness: the versions that it reads, and where it is wrong within them."""

from __future__ import annotations

from typing import Final

#: The newest version that tshark reads, of requests and of answers (-1: none). It has no reader for other APIs, and
#: reads newer versions as if they were these.
READS: Final[dict[str, tuple[int, int]]] = {
    "Produce": (8, 8),
    "Fetch": (11, 11),
    "ListOffsets": (5, 5),
    "Metadata": (9, 9),
    "LeaderAndIsr": (4, 4),
    "StopReplica": (2, 2),
    "UpdateMetadata": (6, 6),
    "ControlledShutdown": (3, 3),
    "OffsetCommit": (9, 9),
    "OffsetFetch": (7, 7),
    "FindCoordinator": (3, 3),
    "JoinGroup": (7, 7),
    "Heartbeat": (4, 4),
    "LeaveGroup": (4, 4),
    "SyncGroup": (5, 5),
    "DescribeGroups": (6, 5),
    "ListGroups": (3, 3),
    "SaslHandshake": (1, 1),
    "ApiVersions": (4, 4),
    "CreateTopics": (6, 6),
    "DeleteTopics": (5, 5),
    "DeleteRecords": (1, 1),
    "InitProducerId": (5, 5),
    "OffsetForLeaderEpoch": (3, 3),
    "AddPartitionsToTxn": (2, 2),
    "AddOffsetsToTxn": (2, 2),
    "EndTxn": (2, 2),
    "WriteTxnMarkers": (0, -1),
    "TxnOffsetCommit": (5, 5),
    "DescribeAcls": (3, 3),
    "CreateAcls": (3, 3),
    "DeleteAcls": (3, 3),
    "DescribeConfigs": (3, 3),
    "AlterConfigs": (1, 1),
    "AlterReplicaLogDirs": (1, 1),
    "DescribeLogDirs": (1, 1),
    "SaslAuthenticate": (2, 2),
    "CreatePartitions": (1, 1),
    "CreateDelegationToken": (2, 2),
    "RenewDelegationToken": (2, 2),
    "ExpireDelegationToken": (2, 2),
    "DescribeDelegationToken": (3, 3),
    "DeleteGroups": (2, 2),
    "ElectLeaders": (1, -1),
    "IncrementalAlterConfigs": (1, 1),
    "OffsetDelete": (0, 0),
}

SHORT_LENGTH: Final = "takes the length of bytes for an int16: shows them empty, and what follows from the wrong place"
NUMBERS: Final = "takes the count of an array of numbers for a number, and its numbers for what follows"
TAGS: Final = "shows tagged fields by their number and bytes, or loses its place in them"
NULL_RECORDS: Final = "loses a partition whose records are null"
FIELD_MISSING: Final = "does not know a field that this version has"
NOTHING: Final = "stops before the array"

#: Where it is wrong, sometimes or always: (api, direction) -> versions and reason.
WRONG: Final[dict[tuple[str, str], tuple[range, str]]] = {
    ("Produce", "request"): (range(0, 9), NULL_RECORDS),
    ("UpdateMetadata", "request"): (
        range(0, 4),
        "reads a broker's fields from the wrong place in the versions before 4",
    ),
    ("JoinGroup", "request"): (range(0, 6), SHORT_LENGTH),
    ("JoinGroup", "response"): (range(0, 6), SHORT_LENGTH),
    ("SyncGroup", "request"): (range(0, 4), SHORT_LENGTH),
    ("SyncGroup", "response"): (range(0, 4), SHORT_LENGTH),
    ("ApiVersions", "response"): (range(3, 5), TAGS),
    ("CreateTopics", "request"): (range(0, 7), NUMBERS),
    ("DeleteTopics", "response"): (range(1, 6), "reads versions 1 and 2 not at all, and of 5 no error message"),
    ("DeleteAcls", "response"): (range(0, 2), NOTHING),
    ("DescribeConfigs", "request"): (range(3, 4), FIELD_MISSING),
    ("SaslAuthenticate", "request"): (range(0, 2), SHORT_LENGTH),
    ("SaslAuthenticate", "response"): (range(0, 2), SHORT_LENGTH),
    ("CreatePartitions", "request"): (range(0, 2), NUMBERS),
    ("CreateDelegationToken", "response"): (range(0, 2), SHORT_LENGTH),
    ("RenewDelegationToken", "request"): (range(0, 2), SHORT_LENGTH),
    ("ExpireDelegationToken", "request"): (range(0, 2), SHORT_LENGTH),
    ("ElectLeaders", "request"): (range(0, 2), NUMBERS),
}


def reads(api: str, version: int, direction: str) -> bool:
    return version <= READS.get(api, (-1, -1))[direction == "response"]


def may_be_wrong(api: str, version: int, direction: str) -> bool:
    return version in WRONG.get((api, direction), (range(0), ""))[0]
