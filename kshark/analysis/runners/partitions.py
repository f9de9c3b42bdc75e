"""All share partitions: what members acquire and acknowledge, in the order in which the capture shows it.

A request's acknowledgements meet the records as they are when it comes, and have their effect with its answer; records
are acquired with the answer that hands them out. Who acquires in between is told apart by the packets."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

from kshark import limits
from kshark.analysis.facts.brokers import Broker, End
from kshark.analysis.facts.calls import (
    ACCEPTED,
    FAILED_LATER,
    FINAL,
    INVALID_EPOCH,
    SESSION_NOT_FOUND,
    UNANSWERED,
    UNCLEAR,
    Acquired,
    Answer,
    Partition,
    ShareStep,
)
from kshark.analysis.facts.connections import ConnectionFacts, Owner, User
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.releases import agreed
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.book import ALL_SIGNS
from kshark.analysis.rules.triggers import ANEW, GIVEN_UP, LIMITED, RELOCKED
from kshark.analysis.runners import plain_records as fast_path
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.situation import Acquisition
from kshark.analysis.states.partition.given_up import given_up
from kshark.analysis.states.partition.group_records import LockTimes, LostFetches, WidePartitions, may_have_acquired
from kshark.analysis.states.partition.locks import GroupLocks
from kshark.analysis.states.partition.rates import Rates
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Piece, StoredRange, runs_of, stored_of
from kshark.analysis.states.partition.share_partition import Change, SharePartition
from kshark.analysis.states.partition.situations import (
    EXPLAINED,
    Acknowledging,
    Acquiring,
    Misdirected,
    Persisted,
    Unserved,
)
from kshark.analysis.states.partition.window import LEAST
from kshark.analysis.states.session.situation import seen_since
from kshark.analysis.states.session.state import Hint, SessionState
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.api_keys import INITIALIZE_SHARE_GROUP_STATE

_Key = tuple[str | None, Partition]
_INVALID_RECORD_STATE: Final = 121
#: Behind these answers acknowledgements may have been taken or not; a fetch that was overtaken is refused behind them.
_UNCERTAIN: Final = frozenset({FAILED_LATER, UNANSWERED, UNCLEAR})
#: What may become of acknowledgements without anything being wrong with the partition: taken, or not said; invalid; of
#: others' records.
_UNSHAKEN: Final = frozenset({0, None, 42, 121})
_partition: Final = itemgetter(0)


class PartitionRunner:
    """`ask` and `answer` take share requests, `ended` ends of connections; `tell` is told every change, if anybody
    wants to know.

    `exact`: the rules look at every delivery, also at those of which none has anything to say; the findings are the
    same. `covering` counts what puts rules to the test."""

    def __init__(
        self,
        book: RuleBook,
        tell: Callable[[Change], object] | None = None,
        covering: CoverageCounter | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self._rules = Runner(book, covering, exact=exact, room=limits.PENDING_VERDICTS, notes_if_proved=True)
        self._rates = Rates()
        self._tell = tell
        self._looks_at_all = covering is not None or not self._rules.skips_plain(IN_FLIGHT, Persisted)
        #: What acknowledgements and acquisitions are looked at for in any case.
        self._of_acknowledging = self._signs_of_all(Acknowledging)
        self._of_acquiring = self._signs_of_all(Acquiring)
        self._partitions: OrderedDict[_Key, SharePartition] = OrderedDict()
        self._groups: dict[str | None, dict[Partition, SharePartition]] = {}
        self._locks: dict[str | None, GroupLocks] = defaultdict(GroupLocks)
        self._lock_times: dict[str | None, LockTimes] = defaultdict(LockTimes)
        self._stranded = LostFetches()
        self._wide = WidePartitions()
        #: How many ranges each partition remembers that are done with.
        self._room = limits.IN_FLIGHT_RANGES
        #: What was read of share partitions before anybody asked for their records: start offset, records, and the
        #: exchange.
        self._begun: OrderedDict[_Key, tuple[int, list[StoredRange], StateStep]] = OrderedDict()

    def _signs_of_all(self, about: type) -> int:
        """Return the signs that every such situation has: all, where a check's trigger has no sign of its own."""
        groups = self._rules.book.questions(StepType(about.__name__)).remarks
        has_signs = all(one.check.trigger.sign for group in groups for one in group)
        return 0 if has_signs and not self._rules.exact else ALL_SIGNS

    @property
    def partitions(self) -> list[SharePartition]:
        """By group, topic and number."""
        return sorted(self._partitions.values(), key=lambda one: (one.group_id or "", one.partition))

    def known(self, group_id: str | None, partition: Partition) -> SharePartition | None:
        """None where no request has acknowledged records of the partition, nor been handed any."""
        return self._groups.get(group_id, {}).get(partition)

    # -- what happens

    def ask(self, step: ShareStep) -> Sequence[Acknowledging]:
        """What a request acknowledges, by partition, and what it meets; to be given back with the answer."""
        seen: dict[Partition, Acknowledging] = {}
        for listed in step.listed:
            batches = listed.acknowledged
            if not batches:
                continue
            partition = self._of(step, listed.partition)
            pieces: list[Piece] = []
            for batch in batches:
                pieces += partition.records.over(batch.first, batch.last)
            # of entries that repeat each other brokers take the last
            seen[listed.partition] = Acknowledging(step, partition, batches, runs_of(batches), pieces)
        for one in seen.values():
            partition = one.share_partition
            partition.open.append(one.runs)
            if partition.stored is not None:
                one.stored = partition.stored[1]
        return [*seen.values()]

    def drop(self, asked: Sequence[Acknowledging]) -> None:
        """What was asked is to be passed over."""
        for one in asked:
            one.share_partition.open.remove(one.runs)

    def answer(
        self, step: ShareStep, asked: Sequence[Acknowledging], acquired: Sequence[Acquired], session: SessionState
    ) -> Sequence[Verdict]:
        """The answer, or that there is none; the step has been settled by it."""
        answer = step.answer
        said: list[Verdict] = []
        if answer is not None and answer.failed:
            self._shake(step, answer, said)
        if session.hints or (answer is not None and answer.leaders):
            said += self._misdirected(step, answer, session)
        said += self._rules.prove(session)
        if not acquired and step.any_doubt is not None:
            session.unread = step.end
        if answer is None and step.is_fetch:
            session.last_unanswered_fetch = step.end
        if (
            step.reply is SESSION_NOT_FOUND and session.last_acquisition
        ):  # whatever ended it, what it acquired behind an end that was seen, too
            session.last_acquisition = None
            self._let_go(session, (step.group_id, step.member_id), (step.end, step.end_ns), None, None)
        if not acquired and not asked and step.kind is not FINAL:
            if step.is_fetch and (
                step.group_id in self._wide.groups or answer is None or answer.throttled or answer.error
            ):
                self._got_nothing(step, session, said)
            return said
        for one in asked:
            self._acknowledged(one, answer, session, said)
        if answer is not None and acquired:
            self._acquire(step, answer, acquired, session, said)
        elif step.is_fetch:
            self._got_nothing(step, session, said)
        if step.kind is FINAL and step.reply is ACCEPTED:
            self._over(step, session)
        return said

    def _over(self, step: ShareStep, session: SessionState) -> None:
        """An accepted request with epoch -1: what the member has acquired in the session's partitions is released."""
        self._let_go(session, (step.group_id, step.member_id), (step.end, step.end_ns), session.in_flight.closed, step)

    def ended(self, connection: ConnectionFacts, user: User, at: End | Answer, *, noticed: bool = True) -> None:
        """A connection ended: the session that was opened last on it is over, but for brokers of 4.0 (KAFKA-19015).

        Only what it lists is released: records of other partitions stay locked. With an older connection it may end,
        too, until 4.1 (KAFKA-19950). `at`: the end, or the answer without which the broker had not `noticed` it: by
        then another session of the member may have taken this one's place, and the records."""
        session: SessionState = user.state
        opening = session.opening
        is_older = opening is not None and opening.connection is not connection
        dies = agreed(session.releases, "dies_with_older_connection" if is_older else "dies_with_connection")
        if dies is False or (is_older and not session.may_have_replaced(connection)):
            return
        known = noticed and dies and opening is not None and not is_older and _is_alone(session, connection)
        held = session.in_flight.partitions if known else None
        self._let_go(session, user.owner, (at.packet, at.time_ns), held, None)

    def _let_go(
        self,
        session: SessionState,
        of: Owner,
        at: tuple[int, int],
        held: Collection[Partition] | None,
        by: ShareStep | None,
    ) -> None:
        """The session is over, or may be: its member has let go of what it `held`, and of other partitions nobody
        knows."""
        (group_id, member_id), (packet, time_ns), broker = of, at, session.broker
        uncounted = agreed(session.releases, "release_uncounts")
        locks = self._locks.get(group_id)
        for partition in () if locks is None else locks.concern(member_id, broker, time_ns, held or ()):
            one = self._groups[group_id][partition]
            if one.leader is broker:
                certain = held is not None and one.partition in held
                one.let_go(member_id, packet, time_ns, certain=certain, uncounted=uncounted, by=by)

    # -- what a share coordinator is told

    def store(self, step: StateStep) -> None:
        """What a leader reads and writes tells what it knows of the records."""
        key = step.call.group_id, step.partition
        partition = self._partitions.get(key)
        if (
            step.call.any_doubt is not None and step.is_write and partition is not None
        ):  # it may have been: nobody lacks it
            partition.persistence.write(step, stored_of(step.batches), is_awaited=bool(partition.open))
        if not step.accepted or step.call.any_doubt is not None:
            return
        if step.is_read and step.given is not None and step.given.start_offset is not None:
            self._begun[key] = step.given.start_offset, stored_of(step.given.batches), step
            if len(self._begun) > limits.SHARE_PARTITIONS:
                self._begun.popitem(last=False)
            if partition is not None:
                self._begin(partition)
        elif partition is None or step.start_offset is None:
            return
        elif step.is_write:
            stored = stored_of(step.batches)
            partition.follow(step.call)
            partition.write(step.call.end, step.call.time_ns, step.call.end_ns, step.start_offset, stored)
            partition.stored = step.start_offset, step
            partition.persistence.write(step, stored, is_awaited=bool(partition.open))
        elif step.call.api_key == INITIALIZE_SHARE_GROUP_STATE and step.start_offset >= 0:
            partition.reset(step.call.end, step.call.end_ns, step.start_offset)

    def _begin(self, partition: SharePartition) -> None:
        begun = self._begun.pop((partition.group_id, partition.partition), None)
        if begun is not None:
            start, stored, read = begun
            if partition.acquired_here:
                partition.doubt = read.call.end, "leader_moved"
            partition.begin(start, stored, read.call.end_ns)
            partition.stored, partition.seen = (
                (start, read),
                max(partition.seen, read.call.end),
            )  # a restart before is over
            for lost in self._stranded.of(partition.group_id, partition.leader):
                if may_have_acquired(lost, read.packet, read.call.time_ns):
                    partition.miss(lost)

    # -- one partition

    def _acknowledged(
        self, asked: Acknowledging, answer: Answer | None, session: SessionState, said: list[Verdict]
    ) -> None:
        step, partition = asked.step, asked.share_partition
        partition.open.remove(asked.runs)
        if answer is not None and step.reply is ACCEPTED and step.any_doubt != "cut":
            asked.error = answer.acknowledged.get(partition.partition)
            if asked.error in EXPLAINED:
                asked.seen_since = seen_since(step, session)
                asked.pieces = [partition.between(piece, step.time_ns, answer.time_ns) for piece in asked.pieces]
            self._rules.count(asked)
            if asked.error == 0 and step.kind is not FINAL:  # who leaves gives back what is left
                asked.rate = self._rates.count(step, partition.partition[0], asked.runs)
            signs = self._of_acknowledging or fast_path.acknowledged(asked)
            if signs and self._rules.ask_uncounted(asked, said, signs=signs) == "unknown":
                partition.unreliable_until = step.end
            before = asked.stored
            if before is not None and (
                asked.error != 0 or self._looks_at_all or not partition.persistence.is_as_acknowledged(step, asked.runs)
            ):
                self._persisted(asked, before, said)
            if asked.error == _INVALID_RECORD_STATE:
                partition.refused.append((step, asked.runs))
            elif asked.error not in _UNSHAKEN:
                partition.unreliable_until = answer.packet
            if asked.error == 0:
                partition.follow(step)
                partition.acknowledge(step, asked.runs, certain=step.any_doubt is None)
        elif step.reply in _UNCERTAIN or step.any_doubt == "cut" or (step.reply is INVALID_EPOCH and step.is_fetch):
            partition.acknowledge(step, asked.runs, certain=False)
        if not partition.open:
            partition.persistence.rest()

    def _persisted(self, asked: Acknowledging, before: StateStep, said: list[Verdict]) -> None:
        """What was stored meets what is answered; rules look at it unless it is just what was said."""
        taken = asked.error == 0
        now = Persisted(
            asked.step,
            asked,
            asked.share_partition.persistence.answered(asked.step, asked.runs, before, accepted=taken),
        )
        self._rules.ask(now, said)

    def _acquire(
        self, step: ShareStep, answer: Answer, acquired: Sequence[Acquired], session: SessionState, said: list[Verdict]
    ) -> None:
        """What is handed out meets the records as they were before the answer; rules look at it unless it is just what
        was due."""
        session.last_acquisition = step, acquired
        until_ns = answer.time_ns + step.connection.clock.disorder_ns
        for key, ranges in groupby(acquired, _partition):
            partition = self._of(step, key)
            partition.follow(step)
            handed, signs = fast_path.acquired_ranges(partition, ranges, answer.spans.get(key), step, until_ns)
            signs |= self._of_acquiring
            locked = partition.locked
            if (
                locked is None
                or locked.lock_ns != answer.lock_ns
                or partition.earlier is not None
                or step.most_records is not None
            ):
                signs |= self._odd(step, answer, partition)
            if signs or partition.last_attempts.ranges or self._rules.covering is not None:
                self._look(step, answer, session, partition, handed, signs, said)
            partition.acquire(step, answer, handed)
            if locked is None or locked.lock_ns != answer.lock_ns:
                self._lock_times[step.group_id].acquired(partition, locked)
            if partition.window.last - partition.window.low >= LEAST - 1:
                self._wide.add(partition)
        answer.spans = {}  # what of them matters is known of the records

    def _odd(self, step: ShareStep, answer: Answer, partition: SharePartition) -> int:
        """What is odd about an acquisition, whatever the records."""
        signs = 0 if step.most_records is None else LIMITED.sign
        if partition.earlier is not None:
            signs |= ANEW.sign
        return (
            signs if self._lock_times[step.group_id].other(partition, answer.lock_ns) is None else signs | RELOCKED.sign
        )

    def _look(
        self,
        step: ShareStep,
        answer: Answer,
        session: SessionState,
        partition: SharePartition,
        handed: Sequence[AcquiredRange],
        signs: int,
        said: list[Verdict],
    ) -> None:
        """What the rules say of an acquisition of which something is odd, or which may show that records are given
        up."""
        lost = given_up(partition, handed[0].first, step.time_ns) if partition.last_attempts.ranges else ()
        if lost:
            signs |= GIVEN_UP.sign
        if not signs and self._rules.covering is None:
            return
        stranded = self._stranded.of(step.group_id, partition.leader)
        locked = self._lock_times[step.group_id].other(partition, answer.lock_ns) if signs & RELOCKED.sign else None
        now = Acquiring(step, answer, session, partition, handed, stranded, lost, locked)
        self._rules.count(now)
        if signs:
            self._rules.ask_uncounted(now, said, signs=signs)

    def _shake(self, step: ShareStep, answer: Answer, said: list[Verdict]) -> None:
        """Partitions that could not be fetched from."""
        of_group = self._groups.get(step.group_id, {})
        for key, error in answer.failed.items():
            known = (step.group_id, key) in self._begun
            if (partition := of_group.get(key)) is not None:
                partition.unreliable_until = answer.packet
                known = known or partition.last_delivery_packet > 0 or partition.stored is not None
            now = Unserved(step, key, error, known)
            self._rules.ask(now, said)

    def _misdirected(self, step: ShareStep, answer: Answer | None, session: SessionState) -> Sequence[Verdict]:
        """Partitions of which a fetch's answer names another leader; those before it may have named the same."""
        if not step.is_fetch or answer is None or step.reply is not ACCEPTED:
            return ()
        said: list[Verdict] = []
        before, session.hints = session.hints, {}
        for partition, leader in answer.leaders.items():
            hint = before.get(partition)
            if hint is None or hint.leader != leader:
                hint = Hint(leader, step, step)
            else:
                now = Misdirected(step, session, partition, hint)
                self._rules.ask(now, said)
            session.hints[partition] = hint._replace(last=step)
        return said

    def _got_nothing(self, step: ShareStep, session: SessionState, said: list[Verdict]) -> None:
        """A fetch without records."""
        if self._stranded.add(step, session):
            for one in self._groups.get(step.group_id, {}).values():
                if one.leader is session.broker:
                    one.miss(step)
        if step.group_id in self._wide.groups:
            for now in self._wide.starving(step, session):
                self._rules.ask(now, said)

    def close(self) -> Sequence[Verdict]:
        """No more is seen: what waits is not proved."""
        return self._rules.close()

    # -- all of them

    def _of(self, step: ShareStep, partition: Partition) -> SharePartition:
        """The share partition, as it is led by the broker that was asked."""
        key = step.group_id, partition
        broker = step.connection.broker
        assert broker is not None
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = SharePartition(
                step, partition, broker, self._locks[step.group_id], self._tell
            )
            self._groups.setdefault(step.group_id, {})[partition] = found
            self._begin(found)
            if len(self._partitions) > limits.SHARE_PARTITIONS:
                self._forget(*self._partitions.popitem(last=False)[0])
            self._room = min(limits.DONE_RANGES // len(self._partitions), limits.IN_FLIGHT_RANGES)
        else:
            self._partitions.move_to_end(key)
        found.room = self._room
        found.meets(step, broker)
        return found

    def _forget(self, group_id: str | None, partition: Partition) -> None:
        of_group = self._groups[group_id]
        gone = of_group.pop(partition)
        gone.locks.clear()
        self._lock_times[group_id].drop(gone, gone.locked)
        if not of_group:
            del self._groups[group_id], self._locks[group_id], self._lock_times[group_id]
        self._wide.drop(group_id, partition)


def _is_alone(session: SessionState, connection: ConnectionFacts) -> bool:
    """Whether no other member's session used the connection: its end takes the last one that was opened on it, or none
    (4.2)."""
    return all(user.state is session for user in connection.users.values())


class ClusterPartitions(dict[int, PartitionRunner]):
    """Deliveries by the number of their cluster (kshark.clusters), made when they are asked for. Beyond the limit
    clusters share one."""

    def __init__(
        self, book: RuleBook, tell: Callable[[Change], object] | None, covering: CoverageCounter | None, *, exact: bool
    ) -> None:
        self._made = partial(PartitionRunner, book, tell, covering, exact=exact)

    def __missing__(self, cluster: int) -> PartitionRunner:
        made = self[cluster] = self._made() if len(self) < limits.CLUSTERS else next(iter(self.values()))
        return made

    @property
    def partitions(self) -> list[SharePartition]:
        """By group, topic and number."""
        every = [partition for one in self._each for partition in one.partitions]
        return sorted(every, key=lambda one: (one.group_id or "", one.partition))

    def last_acquisition(self, broker: Broker | None, group_id: str | None, partition: Partition) -> Acquisition | None:
        """Return the last acquisition from a partition in the broker's cluster; None where there was none."""
        known = self[0 if broker is None else broker.cluster].known(group_id, partition)
        return None if known is None or known.window.by is None else Acquisition(known.leader, known.window.by)

    def store(self, step: StateStep) -> None:
        """What a share coordinator was told."""
        broker = step.call.connection.broker
        self[0 if broker is None else broker.cluster].store(step)

    def close(self) -> Sequence[Verdict]:
        """No more is seen."""
        return [verdict for one in self._each for verdict in one.close()]

    @property
    def _each(self) -> list[PartitionRunner]:
        return [*dict.fromkeys(self.values())]
