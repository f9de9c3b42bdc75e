"""What is known of groups and their members so far; the handlers of the APIs say what happened. All of it is
bounded."""

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
    """An exchange: what was `asked`, the `answer` (None: there is none, or it could not be read), and when each was
    there."""

    flow: Flow
    api_key: int
    client_id: str | None
    asked: Any
    answer: Any
    since: Moment
    at: Moment

    @property
    def error(self) -> int | None:
        """The answer's own error code; None without an answer."""
        found = getattr(self.answer, "error_code", None)
        return found if isinstance(found, int) else None


class Group:
    """One group, whatever its type."""

    def __init__(self, group_id: str) -> None:
        self.group_id: Final = group_id
        self.protocol_type: str | None = None
        self.assignor: str | None = None
        self.members: dict[str, ListedMember] = {}
        self.styles: dict[str, Style] = {}
        self.members_left_out = 0
        #: Members whose first message was not their first.
        self.begun: set[str] = set()
        self.coordinators: deque[Coordinator] = deque(maxlen=limits.GROUP_CHANGES)
        #: The last answer as only the coordinator gives it: from which address, when, to what; and addresses that are
        #: another one's, too.
        self.answered: tuple[str, int, tuple[object, ...]] | None = None
        self.aliases: set[str] = set()
        self.history: deque[GroupState] = deque(maxlen=limits.GROUP_CHANGES)
        self.changes = 0
        #: Administrative operations: those that change it, and those that read.
        self._done: deque[Operation] = deque(maxlen=limits.GROUP_CHANGES)
        self._read: deque[Operation] = deque(maxlen=limits.GROUP_CHANGES)
        self.operations_left_out = 0
        #: Members that are in the group, with the epoch that each was given, and how many have which.
        self.present: dict[str, int | None] = {}
        self._epochs: Counter[int | None] = Counter()

    @property
    def operations(self) -> list[Operation]:
        """Administrative operations in the order of their requests."""
        return sorted((*self._done, *self._read), key=lambda one: one.packet)

    @property
    def is_known(self) -> bool:
        """Whether more is known of it than where its coordinator is: who asked for a group that is not there learnt
        nothing.

        A coordinator answers a question for the offsets of such a group without an error.
        """
        return bool(self.history or self.members or self._done)

    def administered(self, operation: Operation) -> None:
        """An operation is over."""
        held = self._read if operation.operation in READS else self._done
        self.operations_left_out += len(held) == limits.GROUP_CHANGES
        held.append(operation)

    @property
    def now(self) -> GroupState:
        """What it is."""
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
        """What is None stays as it was. A group epoch below the assignment's is out of date."""
        told = {
            "type": type,
            "state": state,
            "group_epoch": group_epoch,
            "assignment_epoch": assignment_epoch,
            "generation": generation,
        }
        before = self.now
        if type is not None and before.type not in (None, type):
            before = GroupState(0, 0, "inferred")
        row = replace(
            before, members=len(self.present), **{name: value for name, value in told.items() if value is not None}
        )
        if row.group_epoch is not None and row.assignment_epoch is not None and row.group_epoch < row.assignment_epoch:
            row.group_epoch = None
        if not self.history or row != self.now:
            self.history.append(replace(row, packet=at.packet, time_ns=at.time_ns, source=source))
            self.changes += 1

    def settle(self, at: Moment, type: GroupType, epoch: int | None = None, *, joined: bool = False) -> None:
        """The state that follows from the members' epochs. Kafka: ShareGroup.State, ConsumerGroup (Assigning is brief).

        `epoch` was given to a member just now: the assignment's, or an older one. That goes up as long as the group
        lives: who `joined` with a lower one joined a group that was made anew."""
        now, is_settled = self.now, type == "share" or len(self._epochs.keys() - {None}) <= 1
        state = "Empty" if not self.present else "Stable" if is_settled else "Reconciling"
        before = None if joined or now.type != type or now.state == "Dead" else now.assignment_epoch
        reached = max((one for one in (before, epoch) if one is not None), default=None)
        self.become(at, "inferred", type=type, state=state, assignment_epoch=reached)

    # -- members

    def heard(self, heard: GroupExchange, member_id: str) -> ListedMember:
        """The member, from which a message came."""
        member = self.member(member_id)
        flow = heard.flow
        member.last = heard.at
        member.client_id, member.address = heard.client_id, host_of(flow.client)
        if flow.software_name is not None:
            member.software, member.software_version = flow.software_name, flow.software_version
        if heard.error:
            code = str(heard.error)
            member.rejected[code] = member.rejected.get(code, 0) + 1
        return member

    def member(self, member_id: str) -> ListedMember:
        found = self.members.get(member_id)
        if found is None:
            found = self.members[member_id] = ListedMember(member_id)
        return found

    def enter(self, member: ListedMember, epoch: int | None, *, joined: Moment | None = None) -> None:
        """It is in the group, with that epoch; `joined`: by joining just now."""
        self._withdraw(member.member_id)
        self.present[member.member_id] = epoch
        self._epochs[epoch] += 1
        member.present, member.ended = True, None
        member.epoch = member.epoch if epoch is None else epoch
        if joined is not None:
            member.joined = joined
            member.joins += 1

    def leave(self, member_id: str, at: Moment, how: str) -> None:
        """It is in the group no longer; nothing if it was not before."""
        if member_id in self.present:
            self._withdraw(member_id)
            member = self.members[member_id]
            member.present, member.ended = False, MemberEnd(at.packet, at.time_ns, how)

    def keep_only(self, member_ids: set[str], at: Moment) -> None:
        """The coordinator says who is in the group: the others are not."""
        for gone in [one for one in self.present if one not in member_ids]:
            self.leave(gone, at, "unknown")

    def forget(self, member_id: str) -> None:
        """There are too many."""
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
    """The member is told its partitions, or its tasks."""
    member.assigned, member.assignment, member.tasks = at, assignment, tasks


class GroupTable:
    """Every group that the capture shows. Beyond the limits the groups and members that were longest not heard of are
    forgotten."""

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

    def heard(self, group: Group, heard: GroupExchange, member_id: str) -> ListedMember:
        """The member of that group, from which a message came."""
        self._touch(group, member_id)
        return group.heard(heard, member_id)

    def told(self, group: Group, member_id: str) -> ListedMember:
        """The member of that group, of which others told."""
        self._touch(group, member_id)
        return group.member(member_id)

    def _touch(self, group: Group, member_id: str) -> None:
        key = group.group_id, member_id
        self._members[key] = None
        self._members.move_to_end(key)
        if len(self._members) > limits.GROUP_MEMBERS:
            (of, forgotten), _ = self._members.popitem(last=False)
            self.groups[of].forget(forgotten)
