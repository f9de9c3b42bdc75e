"""The groups and their members, as the handlers of the APIs record them. The memory is bounded."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kshark import limits
from kshark.analysis import Moment
from kshark.analysis.states.operations.listing import READS, Operation
from kshark.endpoints import host_of
from kshark.groups.listed import Assigned, Coordinator, GroupState, GroupType, ListedMember, MemberEnd, Source, Tasks
from kshark.groups.sight import Sight
from kshark.groups.styles import Style
from kshark.model import Flow


@dataclass(frozen=True, slots=True)
class GroupExchange:
    """An exchange: the bodies of the request and the answer (None: there is none, or it could not be read). `since` is
    the moment of the request, `at` that of the answer, or of the request without one."""

    flow: Flow
    api_key: int
    client_id: str | None
    request: Any
    answer: Any
    since: Moment
    at: Moment

    @property
    def error(self) -> int | None:
        """The answer's own error code; None without an answer."""
        code = getattr(self.answer, "error_code", None)
        return code if isinstance(code, int) else None


class Group:
    """One group, whatever its type."""

    def __init__(self, group_id: str) -> None:
        self.group_id: Final = group_id
        self.protocol_type: str | None = None
        self.assignor: str | None = None
        self.members: dict[str, ListedMember] = {}
        self.styles: dict[str, Style] = {}
        self.members_left_out = 0
        #: Members that are older than the capture.
        self.begun: set[str] = set()
        self.coordinators: deque[Coordinator] = deque(maxlen=limits.GROUP_CHANGES)
        #: The last answer that only the coordinator gives: its address, time and question. `aliases`: addresses that
        #: belong to the same broker as another one.
        self.answered: tuple[str, int, tuple[object, ...]] | None = None
        self.aliases: set[str] = set()
        self.history: deque[GroupState] = deque(maxlen=limits.GROUP_CHANGES)
        self.changes = 0
        #: Administrative operations that change the group, and those that read it.
        self._done: deque[Operation] = deque(maxlen=limits.GROUP_CHANGES)
        self._read: deque[Operation] = deque(maxlen=limits.GROUP_CHANGES)
        self.operations_left_out = 0
        #: Members that are in the group, with the last epoch of each, and the number of members with each epoch.
        self.present: dict[str, int | None] = {}
        self._epochs: Counter[int | None] = Counter()

    @property
    def operations(self) -> list[Operation]:
        """Administrative operations in the order of their requests."""
        return sorted((*self._done, *self._read), key=lambda operation: operation.packet)

    @property
    def is_known(self) -> bool:
        """True if more than the coordinator is known. Clients also ask for groups that do not exist.

        A coordinator answers a request for the offsets of such a group without an error.
        """
        return bool(self.history or self.members or self._done)

    def administered(self, operation: Operation) -> None:
        """Add an operation that is over."""
        held = self._read if operation.operation in READS else self._done
        self.operations_left_out += len(held) == limits.GROUP_CHANGES
        held.append(operation)

    @property
    def latest(self) -> GroupState:
        """The state after the last change."""
        return self.history[-1] if self.history else GroupState(0, 0, "inferred")

    def become(
        self,
        at: Moment,
        source: Source,
        *,
        type: GroupType | None = None,
        state: str | None = None,
        group_epoch: int | None = None,
        assignment_epoch: int | None = None,
        generation: int | None = None,
    ) -> None:
        """Record a change; values that are None stay. A group epoch below the assignment epoch is out of date."""
        changes = {
            "type": type,
            "state": state,
            "group_epoch": group_epoch,
            "assignment_epoch": assignment_epoch,
            "generation": generation,
        }
        before = self.latest
        if type is not None and before.type not in (None, type):
            before = GroupState(0, 0, "inferred")
        row = replace(
            before, members=len(self.present), **{name: value for name, value in changes.items() if value is not None}
        )
        if row.group_epoch is not None and row.assignment_epoch is not None and row.group_epoch < row.assignment_epoch:
            row.group_epoch = None
        if not self.history or row != self.latest:
            self.history.append(replace(row, packet=at.packet, time_ns=at.time_ns, source=source))
            self.changes += 1

    def settle(self, at: Moment, type: GroupType, epoch: int | None = None, *, joined: bool = False) -> None:
        """Record the state that follows from the members' epochs. Kafka: ShareGroup.State, ConsumerGroup (Assigning is
        brief).

        `epoch`: the epoch that a member has just received: the assignment epoch or an older one. It only increases
        while the group exists: a member that `joined` with a lower one joined a new group."""
        latest, is_settled = self.latest, type == "share" or len(self._epochs.keys() - {None}) <= 1
        state = "Empty" if not self.present else "Stable" if is_settled else "Reconciling"
        before = None if joined or latest.type != type or latest.state == "Dead" else latest.assignment_epoch
        reached = max((value for value in (before, epoch) if value is not None), default=None)
        self.become(at, "inferred", type=type, state=state, assignment_epoch=reached)

    # -- members

    def sender(self, exchange: GroupExchange, member_id: str) -> ListedMember:
        """Return the member that sent an exchange, and record its client."""
        member = self.member(member_id)
        flow = exchange.flow
        member.last = exchange.at
        member.client_id, member.address = exchange.client_id, host_of(flow.client)
        if flow.software_name is not None:
            member.software, member.software_version = flow.software_name, flow.software_version
        if exchange.error:
            code = str(exchange.error)
            member.rejected[code] = member.rejected.get(code, 0) + 1
        return member

    def member(self, member_id: str) -> ListedMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ListedMember(member_id)
        return member

    def enter(self, member: ListedMember, epoch: int | None, *, joined: Moment | None = None) -> None:
        """Record that a member is in the group, with an epoch. `joined`: the moment of its join, if it joined now."""
        self._withdraw(member.member_id)
        self.present[member.member_id] = epoch
        self._epochs[epoch] += 1
        member.present, member.ended = True, None
        member.epoch = member.epoch if epoch is None else epoch
        if joined is not None:
            member.joined = joined
            member.joins += 1

    def leave(self, member_id: str, at: Moment, how: str) -> None:
        """Record that a member left the group; ignore a member that was not in it."""
        if member_id in self.present:
            self._withdraw(member_id)
            member = self.members[member_id]
            member.present, member.ended = False, MemberEnd(at.packet, at.time_ns, how)

    def keep_only(self, member_ids: set[str], at: Moment) -> None:
        """Record the full list of members: all others left."""
        for gone in [member_id for member_id in self.present if member_id not in member_ids]:
            self.leave(gone, at, "unknown")

    def forget(self, member_id: str) -> None:
        """Drop a member beyond the limit."""
        self._withdraw(member_id)
        self.members.pop(member_id, None)
        self.styles.pop(member_id, None)
        self.begun.discard(member_id)
        self.members_left_out += 1

    def _withdraw(self, member_id: str) -> None:
        if member_id in self.present:
            epoch = self.present.pop(member_id)
            self._epochs[epoch] -= 1
            if not self._epochs[epoch]:
                del self._epochs[epoch]


def assign(
    member: ListedMember, at: Moment, assignment: list[Assigned] | None, tasks: list[Tasks] | UnsetType = UNSET
) -> None:
    """Set the partitions or the tasks that a member received."""
    member.assigned, member.assignment, member.tasks = at, assignment, tasks


class GroupTable:
    """Every group that the capture shows. Beyond the limits the groups and members without messages for longest are
    dropped."""

    def __init__(self) -> None:
        self.sight = Sight()
        self.groups: OrderedDict[str, Group] = OrderedDict()
        self.groups_left_out = 0
        self._members: OrderedDict[tuple[str, str], None] = OrderedDict()

    def of(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
            if len(self.groups) > limits.GROUPS:
                _, oldest = self.groups.popitem(last=False)
                self.groups_left_out += 1
                for member_id in oldest.members:
                    self._members.pop((oldest.group_id, member_id), None)
        else:
            self.groups.move_to_end(group_id)
        return group

    def sender(self, group: Group, exchange: GroupExchange, member_id: str) -> ListedMember:
        """Return the member of a group that sent an exchange."""
        self._touch(group, member_id)
        return group.sender(exchange, member_id)

    def mentioned(self, group: Group, member_id: str) -> ListedMember:
        """Return the member of a group that an exchange of others mentions."""
        self._touch(group, member_id)
        return group.member(member_id)

    def _touch(self, group: Group, member_id: str) -> None:
        key = group.group_id, member_id
        self._members[key] = None
        self._members.move_to_end(key)
        if len(self._members) > limits.GROUP_MEMBERS:
            (of, forgotten), _ = self._members.popitem(last=False)
            self.groups[of].forget(forgotten)
