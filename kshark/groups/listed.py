"""What is told of a group: these structs, with their fields in this order, are the JSON lines of `kshark groups -T
json`."""

from __future__ import annotations

from typing import Literal

import msgspec

from kshark.analysis import Moment
from kshark.analysis.states.operations.listing import Operation

GroupType = Literal["share", "consumer", "classic", "streams"]
#: What a Streams task is for: to do the work, to take over from whoever does, or to be made ready for that.
Role = Literal["active", "standby", "warmup"]
#: Who says it: an answer to an administrator; the deletion of the group; or nobody: it follows from what the members
#: did.
Source = Literal["described", "listed", "deleted", "inferred"]


class GroupState(msgspec.Struct):
    """What a group was from a packet on, in Kafka's words; null: not known.

    `members` are those that the capture shows to be in the group. `group_epoch` is as it was last described;
    `assignment_epoch` the highest that a member was given, or as described; `generation` is a classic group's."""

    packet: int
    time_ns: int
    source: Source
    type: GroupType | None = None
    state: str | None = None
    members: int = 0
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    generation: int | None = None


class Coordinator(msgspec.Struct):
    """A coordinator from a packet on: `node_id` and `host` as FindCoordinator named it, `broker` the address that
    answered as it does."""

    packet: int
    time_ns: int
    node_id: int | None = None
    host: str | None = None
    broker: str | None = None


class Assigned(msgspec.Struct):
    """Partitions of one topic; `topic_id` is null where the protocol has names only, `topic` where no name of the id
    was seen."""

    topic_id: str | None
    topic: str | None
    partitions: list[int]


class Tasks(msgspec.Struct):
    """Of a Streams application, the tasks of one subtopology by their partitions."""

    role: Role
    subtopology: str
    partitions: list[int]


class MemberEnd(msgspec.Struct):
    """How a member's time in the group ended: left; removed (by somebody else); replaced (a static member that came
    back); away (a static member that will); fenced; unknown (the coordinator did not know it, or did not list it any
    more); deleted (with its group)."""

    packet: int
    time_ns: int
    how: str


class AcknowledgementStyle(msgspec.Struct):
    """How a member acknowledges; null where that cannot be told. No message says it: `because` is what it is inferred
    from."""

    style: Literal["explicit", "implicit"] | None
    because: str


class ListedMember(msgspec.Struct):
    """A member, and its client with the host's `address`.

    `present`: as far as the capture shows it is in the group at the end. `joined` is its last join, null where none was
    seen; `last` the answer to its last message, or that message where none came; `ended` how it went, null also where
    it was never seen to be in the group. `epoch` is the member epoch, or a classic group's generation, that it was
    given last; `topics` what it subscribes to;
    `assignment` what it was assigned last, at `assigned`, for which members of Streams groups, and they alone, have the
    key `tasks`;
    `rejected` counts its refused requests by error.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    software: str | None = None
    software_version: str | None = None
    address: str | None = None
    rack_id: str | None = None
    present: bool = False
    joined: Moment | None = None
    joins: int = 0
    last: Moment | None = None
    ended: MemberEnd | None = None
    epoch: int | None = None
    topics: list[str] | None = None
    assigned: Moment | None = None
    assignment: list[Assigned] | None = None
    rejected: dict[str, int] = {}
    acknowledges: AcknowledgementStyle | None = None
    tasks: list[Tasks] | msgspec.UnsetType = msgspec.UNSET


class ListedGroup(msgspec.Struct):
    """One group: what it is at the end, and in `history` a row for each change.

    `protocol_type` is a classic group's (`consumer`, `connect`), `assignor` as described, or as a classic group chose
    it. `operations` are administrative ones, in the order of their requests. Changes, members and operations that are
    no longer held are counted in
    `history_left_out`, `members_left_out` and `operations_left_out`. `cluster_id`: where Metadata told it.
    `not_captured`: what is missing of a share group, and what is not known for that.
    """

    group_id: str
    type: GroupType | None
    protocol_type: str | None
    state: str | None
    group_epoch: int | None
    assignment_epoch: int | None
    generation: int | None
    assignor: str | None
    coordinators: list[Coordinator]
    history: list[GroupState]
    members: list[ListedMember]
    operations: list[Operation]
    history_left_out: int = 0
    members_left_out: int = 0
    operations_left_out: int = 0
    cluster_id: str | None = None
    not_captured: list[str] = []
