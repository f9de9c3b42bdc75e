"""The groups and their members, as the handlers of the APIs record them. The memory is bounded."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kshark import limits
from kshark.analysis import Moment
from kshark.analysis.states.operations.listing import READS, Operation
from kshark.endpoints import host_of
from kshark.groups.listed import (
    Assigned,
    Coordinator,
    ExpiryProof,
    GroupState,
    GroupType,
    ListedMember,
    MemberEnd,
    Source,
    Tasks,
)
from kshark.groups.recorded import RecordedChanges
from kshark.groups.settings import GroupSettings
from kshark.groups.sight import Sight
from kshark.groups.silence import Life, Timeouts, Traffic
from kshark.groups.styles import Style
from kshark.model import Flow
from kshark_dissectors.enums import ErrorCode

#: The epoch of a static member that is away.
AWAY: Final = -2
#: Results of a join that do not show whether the member is in the group: no answer, a coordinator that is not there,
#: a rebalance, or a member id to join with.
PASSING: Final = frozenset(
    {
        None,
        0,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)


class GroupExchange(Struct, frozen=True):
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
        #: The signs of life of members, and those that the coordinator refused.
        self.lives: dict[str, Life] = {}
        self.refused: set[str] = set()
        #: The member to which each partition or task was assigned last.
        self.owners: dict[tuple[str, int], str] = {}
        #: The highest group epoch that the capture shows, and the time of the last event that may raise it.
        self.reached_epoch: int | None = None
        self.changed_ns = 0
        #: The earliest time at which a session may be over.
        self.next_due_ns = 0

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
        because: ExpiryProof | None = None,
    ) -> None:
        """Record a change; values that are None stay. A group epoch below the assignment epoch is out of date.
        `because`: its time is inferred."""
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
            self.history.append(replace(row, packet=at.packet, time_ns=at.time_ns, source=source, because=because))
            self.changes += 1

    def settle(
        self,
        at: Moment,
        type: GroupType,
        epoch: int | None = None,
        *,
        joined: bool = False,
        because: ExpiryProof | None = None,
    ) -> None:
        """Record the state that follows from the members' epochs. Kafka: ShareGroup.State, ConsumerGroup (Assigning is
        brief).

        `epoch`: the epoch that a member has just received: the assignment epoch or an older one. It only increases
        while the group exists: a member that `joined` with a lower one joined a new group."""
        epochs = self._epochs.keys() - {None}
        latest, is_settled = self.latest, type == "share" or (len(epochs) <= 1 and AWAY not in epochs)
        state = "Empty" if not self.present else "Stable" if is_settled else "Reconciling"
        before = None if joined or latest.type != type or latest.state == "Dead" else latest.assignment_epoch
        reached = max((value for value in (before, epoch) if value is not None), default=None)
        self.become(at, "inferred", type=type, state=state, assignment_epoch=reached, because=because)

    def is_at(self, epoch: int) -> bool:
        """True if every member has this epoch, or a higher one."""
        return all(one is not None and one >= epoch for one, count in self._epochs.items() if count)

    # -- members

    def life(self, member_id: str) -> Life:
        """Return the signs of life of a member."""
        life = self.lives.get(member_id)
        if life is None:
            life = self.lives[member_id] = Life()
        return life

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
        if member.member_id not in self.present:
            self.next_due_ns = 0
        self._withdraw(member.member_id)
        self.present[member.member_id] = epoch
        self._epochs[epoch] += 1
        self.refused.discard(member.member_id)
        member.present = True
        if epoch != AWAY or (member.ended is not None and member.ended.how != "away"):
            member.ended = None
        member.epoch = member.epoch if epoch is None else epoch
        if joined is not None:
            member.joined = joined
            member.joins += 1

    def leave(self, member_id: str, at: Moment, how: str) -> None:
        """Record that a member left the group, which raises its epoch; ignore a member that was not in it."""
        self.end(member_id, MemberEnd(at.packet, at.time_ns, how))

    def end(self, member_id: str, end: MemberEnd) -> None:
        """Record the end of a member's time in the group, as `leave` does."""
        if member_id in self.present:
            self._withdraw(member_id)
            member = self.members[member_id]
            member.present, member.ended = False, end
            self.changed_ns = max(self.changed_ns, end.time_ns)

    def away(self, member: ListedMember, at: Moment) -> None:
        """Record that a static member is away: until its session expires it is in the group. Source: KIP-848."""
        self.enter(member, AWAY)
        member.ended = MemberEnd(at.packet, at.time_ns, "away")

    def forget(self, member_id: str) -> None:
        """Drop a member beyond the limit."""
        self._withdraw(member_id)
        self.members.pop(member_id, None)
        self.styles.pop(member_id, None)
        self.lives.pop(member_id, None)
        self.refused.discard(member_id)
        self.begun.discard(member_id)
        self.members_left_out += 1

    def _withdraw(self, member_id: str) -> None:
        if member_id in self.present:
            epoch = self.present.pop(member_id)
            self._epochs[epoch] -= 1
            if not self._epochs[epoch]:
                del self._epochs[epoch]


def assign(
    member: ListedMember, at: Moment, assignment: list[Assigned] | None, tasks: list[Tasks] | None = None
) -> None:
    """Set the partitions or the tasks that a member received."""
    member.assigned, member.assignment, member.tasks = at, assignment, tasks


class TopicChanges:
    """The last change of each topic by a request of an administrator."""

    def __init__(self) -> None:
        #: The time of the last change of any topic.
        self.last_ns = 0
        self._of: OrderedDict[str, Moment] = OrderedDict()

    def feed(self, request: Any, at: Moment) -> None:
        """Take a CreateTopics, DeleteTopics or CreatePartitions request; without a body, a change of any topic."""
        self.last_ns = at.time_ns
        for topic in [*(getattr(request, "topics", None) or ()), *(getattr(request, "topic_names", None) or ())]:
            name = topic if isinstance(topic, str) else topic.name
            if isinstance(name, str):
                self._of[name] = at
                self._of.move_to_end(name)
                if len(self._of) > limits.GROUPS:
                    self._of.popitem(last=False)

    def of(self, names: Iterable[str], since_ns: int) -> Moment | None:
        """Return the last change of one of these topics after a time; None if there is none."""
        found = [self._of[name] for name in names if name in self._of and self._of[name].time_ns >= since_ns]
        return max(found, key=lambda at: at.time_ns, default=None)


class GroupTable:
    """Every group that the capture shows. Beyond the limits the groups and members without messages for longest are
    dropped."""

    def __init__(self, traffic: Traffic) -> None:
        self.sight = Sight()
        self.traffic = traffic
        self.timeouts = Timeouts()
        self.settings = GroupSettings()
        self.topics_changed = TopicChanges()
        self.records = RecordedChanges()
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

    def configured(self, exchange: GroupExchange) -> None:
        """Take an exchange about settings: with other timeouts, sessions may be over earlier."""
        changes, seen = self.timeouts.changes, (exchange.api_key, exchange.request, exchange.answer, exchange.at)
        self.settings.learn(*seen, exchange.flow.broker)
        self.timeouts.learn(*seen)
        if self.timeouts.changes > changes:
            for group in self.groups.values():
                group.next_due_ns = 0

    def sender(self, group: Group, exchange: GroupExchange, member_id: str) -> ListedMember:
        """Return the member of a group that sent an exchange to its coordinator."""
        member = self.fetcher(group, exchange, member_id)
        life = group.life(member_id)
        if (
            member.ended is not None
            and member.ended.how == "expired"
            and exchange.since.time_ns <= member.ended.time_ns
        ):
            # It was not silent: an earlier request became known only now.
            group.enter(member, member.epoch)
        host, is_answered = host_of(exchange.flow.client), exchange.answer is not None
        life.beats(exchange.since, exchange.flow.id, host, is_answered=is_answered)
        return member

    def fetcher(self, group: Group, exchange: GroupExchange, member_id: str) -> ListedMember:
        """Return the member of a share group that sent an exchange to any broker."""
        self._touch(group, member_id)
        return group.sender(exchange, member_id)

    def mentioned(self, group: Group, member_id: str, at: Moment) -> ListedMember:
        """Return the member of a group that an answer to others lists."""
        self._touch(group, member_id)
        group.life(member_id).described = at
        return group.member(member_id)

    def keep_only(
        self, group: Group, member_ids: set[str], at: Moment, how: str = "unknown", since: Moment | None = None
    ) -> None:
        """Record the full list of members: the sessions of all others expired, or they ended in another way. `since`:
        the list is of a new generation of a classic group, for which a member asked then."""
        for gone in [member_id for member_id in group.present if member_id not in member_ids]:
            life = group.life(gone)
            timeout = self.timeouts.of(group.latest.type, group.group_id, life)
            is_expired = timeout.is_shown_at(life.last_ns) and life.heard_ns + timeout.ns <= at.time_ns
            if life.heard is not None and is_expired:
                self.expired(group, gone, at, "not_listed")
            elif since is not None and self._has_missed(group, gone, since, at):
                timeout_ms = life.rebalance_ms
                group.end(gone, MemberEnd(at.packet, at.time_ns, "not_rejoined", timeout_ms=timeout_ms))
            else:
                group.leave(gone, at, how)

    def _has_missed(self, group: Group, member_id: str, since: Moment, at: Moment) -> bool:
        """True if a member knew of a rebalance, and did not join again within its rebalance timeout. Kafka:
        GroupMetadataManager.completeClassicGroupJoin."""
        life = group.life(member_id)
        if life.informed is None or not life.rebalance_ms or group.members[member_id].instance_id:
            return False
        begun_ns = min(life.informed.time_ns, since.time_ns)
        is_late = at.time_ns - begun_ns >= life.rebalance_ms * 1_000_000
        return is_late and not self.traffic.lost_since(life.host, life.informed.time_ns)

    def expired(self, group: Group, member_id: str, at: Moment, because: ExpiryProof) -> None:
        """Record that a session expired: after its timeout if that is shown, otherwise by the packet that shows it."""
        life = group.life(member_id)
        timeout = self.timeouts.of(group.latest.type, group.group_id, life)
        shown_ms = timeout.ms if timeout.is_shown_at(life.heard_ns) else None
        ends_ns = self.ends_ns(group, member_id, at)
        group.end(member_id, MemberEnd(at.packet, ends_ns, "expired", because, shown_ms, life.heard_ns))

    def ends_ns(self, group: Group, member_id: str, at: Moment) -> int:
        """Return the time at which a session ended that is over at a moment."""
        life = group.life(member_id)
        timeout = self.timeouts.of(group.latest.type, group.group_id, life)
        ends_ns = life.heard_ns + timeout.ns if timeout.is_shown_at(life.heard_ns) else at.time_ns
        return min(at.time_ns, ends_ns)

    def _touch(self, group: Group, member_id: str) -> None:
        key = group.group_id, member_id
        self._members[key] = None
        self._members.move_to_end(key)
        if len(self._members) > limits.GROUP_MEMBERS:
            (of, forgotten), _ = self._members.popitem(last=False)
            self.groups[of].forget(forgotten)
