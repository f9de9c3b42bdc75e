"""Conversations of administrators: what they ask a group coordinator, and are told."""

from __future__ import annotations

from dataclasses import dataclass

from kshark.analysis.states.operations.chains import Administration
from kshark.analysis.states.operations.listing import Operation
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned, events


@dataclass
class Administrator:
    """An administrator on a connection to the coordinator of his group, who knows one topic."""

    connection: Connection
    group: str = "g"
    topic: str = "t"

    def alter(self, **offsets: int) -> Altering:
        """Start offsets by partition: `p0=5`."""
        told = {int(name[1:]): offset for name, offset in offsets.items()}
        rows = [{"partition_index": partition, "start_offset": offset} for partition, offset in told.items()]
        body = {"group_id": self.group, "topics": [{"topic_name": self.topic, "partitions": rows}]}
        return Altering(self.connection.ask(91, "AlterShareGroupOffsets", 0, body), [*told], self.topic)

    def delete_offsets(self) -> Asked:
        body = {"group_id": self.group, "topics": [{"topic_name": self.topic}]}
        return self.connection.ask(92, "DeleteShareGroupOffsets", 0, body)

    def delete_group(self) -> Asked:
        return self.connection.ask(42, "DeleteGroups", 2, {"groups_names": [self.group]})

    def describe(self) -> Asked:
        return self.connection.ask(
            77, "ShareGroupDescribe", 1, {"group_ids": [self.group], "include_authorized_operations": False}
        )

    def describe_offsets(self) -> Asked:
        return self.connection.ask(
            90, "DescribeShareGroupOffsets", 1, {"groups": [{"group_id": self.group, "topics": None}]}
        )

    def list_groups(self) -> Asked:
        return self.connection.ask(16, "ListGroups", 5, {"states_filter": [], "types_filter": []})


@dataclass
class Altering:
    """A request that moves start offsets."""

    asked: Asked
    partitions: list[int]
    topic: str

    def answered(self, *errors: int) -> Asked:
        """`errors`: one for each partition in its order, of which the answer names no more than there are."""
        rows = [
            {"partition_index": one, "error_code": error} for one, error in zip(self.partitions, errors, strict=False)
        ]
        return self.asked.answered(
            responses=[{"topic_name": self.topic, "topic_id": TOPIC, "partitions": rows}] if rows else []
        )


def offsets_deleted(asked: Asked, error: int = 0) -> Asked:
    """The answer to DeleteShareGroupOffsets."""
    return asked.answered(responses=[{"topic_name": "t", "topic_id": TOPIC, "error_code": error}])


def group_deleted(asked: Asked, error: int = 0, group: str = "g") -> Asked:
    """The answer to DeleteGroups."""
    return asked.answered(None, results=[{"group_id": group, "error_code": error}])


def operations(talk: Conversation | Thinned) -> list[Operation]:
    """What the stage makes of the conversation, in the order of packets."""
    stage = Administration()
    found = [operation for event in events(talk) for operation in stage.feed(event)]
    return sorted([*found, *stage.close()], key=lambda one: one.packet)
