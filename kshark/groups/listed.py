"""Groups as they are listed: these structs, with their fields in this order, are the JSON lines of `kshark groups -T
json`."""

from __future__ import annotations

from typing import Literal

import msgspec

from kshark.analysis import Moment
from kshark.analysis.states.operations.listing import Operation
from kshark.groups.rebalances.listing import Rebalance
from kshark.model import Shown, null

GroupType = Literal["share", "consumer", "classic", "streams"]
#: The role of a Streams task: it does the work, it can take over, or it prepares for that.
Role = Literal["active", "standby", "warmup"]
#: The source of a state: an answer to an administrator, the deletion of the group, or an inference from the members'
#: requests.
Source = Literal["described", "listed", "deleted", "inferred"]


#: The source of a session timeout.
TimeoutSource = Literal["join", "config", "default"]
#: The sign that a member's session expired.
ExpiryProof = Literal["session_timeout", "assigned_to_others", "epoch", "instance", "not_listed", "refused"]


#: What has a group's setting: the group itself; its brokers, for all groups without their own; nobody, so Kafka's
#: default or the brokers' counts, as DescribeConfigs said.
SettingSource = Literal["group", "broker", "default"]


OffsetSource = Literal["committed", "fetched", "described"]


class GroupState(msgspec.Struct, omit_defaults=True):
    """The state of a group from a packet on, in Kafka's words; null: unknown.

    `members`: the number of members that the capture shows in the group. `group_epoch`: as last described.
    `assignment_epoch`: the highest that a member received, or as described. `generation`: of a classic group.
    `because`: sessions expired; no other row has this key. Then `time_ns` is about the time of the last of them, and
    `packet` only the one from which on the capture shows it."""

    packet: int
    time_ns: int
    source: Source
    type: GroupType | None = msgspec.field(default_factory=null)
    state: str | None = msgspec.field(default_factory=null)
    members: int = msgspec.field(default_factory=int)
    group_epoch: int | None = msgspec.field(default_factory=null)
    assignment_epoch: int | None = msgspec.field(default_factory=null)
    generation: int | None = msgspec.field(default_factory=null)
    because: ExpiryProof | None = None


class Coordinator(msgspec.Struct):
    """A coordinator from a packet on. `node_id` and `host` are from FindCoordinator; `broker` is the address that
    answered as a coordinator."""

    packet: int
    time_ns: int
    node_id: int | None = None
    host: str | None = None
    broker: str | None = None


class Assigned(msgspec.Struct):
    """Partitions of one topic. `topic_id` is null if the protocol has names only, `topic` if the name of the id is
    unknown."""

    topic_id: str | None
    topic: str | None
    partitions: list[int]


class Tasks(msgspec.Struct):
    """The tasks of one subtopology of a Streams application, by their partitions."""

    role: Role
    subtopology: str
    partitions: list[int]


class MemberEnd(msgspec.Struct, omit_defaults=True):
    """The end of a member's time in the group: left; removed (by another client); replaced (a static member came back);
    away (a static member that will come back: until its session expires it is in the group); fenced; not_rejoined (the
    group went on without it after its rebalance timeout, `timeout_ms`); expired (its session timed out); unknown (the
    coordinator did not know it, or no longer listed it); deleted (with its group).

    No message contains that a session expired, and `time_ns` is only about right. `because` says what shows it, from
    `packet` on; no other end has this key:
    session_timeout (the capture has the timeout, and nothing of the member), assigned_to_others (its partitions were),
    epoch (the group's epoch rose without another reason), instance (its instance id was free), not_listed (the
    coordinator did not list it after its timeout), refused (it did not know it then). With it come `last_ns`, the time
    of its last message to its coordinator, and `timeout_ms`, the session timeout if the capture shows it."""

    packet: int
    time_ns: int
    how: str
    because: ExpiryProof | None = None
    timeout_ms: int | None = None
    last_ns: int | None = None


class Silence(msgspec.Struct):
    """A silent member's last message to its coordinator, or the answer that listed it, and its session timeout. The
    timeout is from its JoinGroup, from the configuration in the capture, or Kafka's default. The capture does not show
    whether its session expired."""

    packet: int
    time_ns: int
    session_timeout_ms: int
    source: TimeoutSource


class AcknowledgementStyle(msgspec.Struct):
    """The acknowledgement style of a member; null if it cannot be inferred. No message contains it: `because` is the
    reason of the inference."""

    style: Literal["explicit", "implicit"] | None
    because: str


def _no_errors() -> dict[str, int]:
    return {}


class ListedMember(msgspec.Struct, omit_defaults=True):
    """A member, and its client with the host's `address`.

    `present`: it is in the group at the end; null: the capture does not show it. `joined`: its last join; null if the
    capture has none. `last`: the answer to its last message, or that message if it has no answer. `ended`: how it left;
    null also if the capture never shows it in the group. `epoch`: the last member epoch, or generation of a classic
    group, that it received. `topics`: its subscription. `assignment`: its last assignment, received at `assigned`; only
    members of Streams groups have the key `tasks` instead. `rejected`: its refused requests by error. `silent`: only
    of a member that was in the group and for which `present` is null.
    """

    member_id: str
    instance_id: str | None = msgspec.field(default_factory=null)
    client_id: str | None = msgspec.field(default_factory=null)
    software: str | None = msgspec.field(default_factory=null)
    software_version: str | None = msgspec.field(default_factory=null)
    address: str | None = msgspec.field(default_factory=null)
    rack_id: str | None = msgspec.field(default_factory=null)
    present: bool | None = msgspec.field(default_factory=null)
    joined: Moment | None = msgspec.field(default_factory=null)
    joins: int = msgspec.field(default_factory=int)
    last: Moment | None = msgspec.field(default_factory=null)
    ended: MemberEnd | None = msgspec.field(default_factory=null)
    epoch: int | None = msgspec.field(default_factory=null)
    topics: list[str] | None = msgspec.field(default_factory=null)
    assigned: Moment | None = msgspec.field(default_factory=null)
    assignment: list[Assigned] | None = msgspec.field(default_factory=null)
    rejected: dict[str, int] = msgspec.field(default_factory=_no_errors)
    acknowledges: AcknowledgementStyle | None = msgspec.field(default_factory=null)
    tasks: list[Tasks] | None = None
    silent: Silence | None = None


class GroupSetting(msgspec.Struct):
    """A setting of a group, and the packet that showed its value first. An administrator outside the capture may have
    changed it since. `value`: null if the answer hides it."""

    name: str
    value: str | None
    source: SettingSource
    packet: int
    time_ns: int


class GroupOffset(msgspec.Struct):
    """How far a group has read a partition, and the packet that shows it.

    `offset`: the committed offset of a consumer or classic group, the start offset of a share group. `end_offset`: the
    end of the partition, as last shown by a Produce, Fetch or ListOffsets; the real end may be higher. `lag`: as the
    answer has it, else from `end_offset`; null if it is unknown. `source`: committed (OffsetCommit), fetched
    (OffsetFetch), described (DescribeShareGroupOffsets)."""

    topic_id: str | None
    topic: str
    partition: int
    offset: int
    end_offset: int | None
    lag: int | None
    packet: int
    time_ns: int
    source: OffsetSource


class ListedGroup(Shown, omit_defaults=True):
    """One group: its state at the end, and in `history` a row for each change.

    `protocol_type`: of a classic group (`consumer`, `connect`). `assignor`: as described, or as a classic group chose
    it. `operations`: administrative operations, in the order of their requests. `history_left_out`, `members_left_out`
    and `operations_left_out` count the dropped changes, members and operations. `cluster_id`: null if no Metadata
    answer has it. `not_captured`: the missing parts of a share group's traffic, and what is unknown without them.
    `settings`: by name, as far as the capture shows them. `offsets`: by topic and partition, likewise. `unassigned`:
    partitions of subscribed topics that no member has, if the assignments of all members are known. `rebalances` and
    `rebalances_left_out`: only with `--rebalances`.
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
    history_left_out: int
    members_left_out: int
    operations_left_out: int
    cluster_id: str | None
    not_captured: list[str]
    settings: list[GroupSetting]
    offsets: list[GroupOffset]
    unassigned: list[Assigned]
    rebalances: list[Rebalance] | None = None
    rebalances_left_out: int | None = None

    def __repr__(self) -> str:
        members = sum(member.present is True for member in self.members)
        return f"<Group {self.group_id!r} {self.type} {self.state}, {members} members>"
