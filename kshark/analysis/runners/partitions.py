"""The runner of share partitions: what members acquire and acknowledge, in the order of the capture.

Acknowledgements are judged by the records' states at the request, and change them with the answer. An answer that
delivers records acquires them. Packet numbers separate acquisitions between a request and its answer."""

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
from kshark.analysis.facts.known import Known
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.releases import agreed
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.facts.transactions import Aborted, Transactions
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
from kshark.analysis.states.partition.records_in_flight import (
    AcquiredRange,
    OpenRequest,
    Piece,
    StoredRange,
    runs_of,
    stored_of,
)
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
from kshark.analysis.states.session.situation import received_by
from kshark.analysis.states.session.state import Hint, SessionState
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.api_keys import INITIALIZE_SHARE_GROUP_STATE

_Key = tuple[str | None, Partition]
_INVALID_RECORD_STATE: Final = 121
#: With these answers the broker may have applied the acknowledgements, or not. An overtaken fetch is refused after they
#: are applied.
_UNCERTAIN: Final = frozenset({FAILED_LATER, UNANSWERED, UNCLEAR})
#: Errors of acknowledgements after which the partition's state stays reliable: none, or not reported; invalid requests;
#: records of other members.
_RELIABLE: Final = frozenset({0, None, 42, _INVALID_RECORD_STATE})
#: Errors of acknowledgements that changed nothing: an invalid request, records that the member does not hold.
_NOT_APPLIED: Final = frozenset({42, _INVALID_RECORD_STATE})
_partition: Final = itemgetter(0)


class PartitionRunner:
    """Take share requests with `ask` and `answer`, and ends of connections with `ended`. `on_change` is called with
    every change of records.

    `exact`: ask the rules about plain deliveries too; the findings are the same. `counter` counts what puts rules to
    the test."""

    def __init__(
        self,
        book: RuleBook,
        on_change: Callable[[Change], object] | None = None,
        counter: CoverageCounter | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self._rules = Runner(book, counter, exact=exact, room=limits.PENDING_VERDICTS, notes_if_proved=True)
        self._rates = Rates()
        self._on_change = on_change
        self._looks_at_all = counter is not None or not self._rules.skips_plain(IN_FLIGHT, Persisted)
        #: Signs that every acknowledgement and every acquisition has.
        self._of_acknowledging = self._signs_of_all(Acknowledging)
        self._of_acquiring = self._signs_of_all(Acquiring)
        self._partitions: OrderedDict[_Key, SharePartition] = OrderedDict()
        self._groups: dict[str | None, dict[Partition, SharePartition]] = {}
        self._locks: dict[str | None, GroupLocks] = defaultdict(GroupLocks)
        self._lock_times: dict[str | None, LockTimes] = defaultdict(LockTimes)
        self.transactions = Transactions()
        self._lost_fetches = LostFetches()
        self._wide = WidePartitions()
        #: The most finished ranges that each partition keeps.
        self._room = limits.IN_FLIGHT_RANGES
        self._has_forgotten = False
        #: The states that were read of share partitions before a request for their records: start offset, records, and
        #: the exchange.
        self._initial_states: OrderedDict[_Key, tuple[int, list[StoredRange], StateStep]] = OrderedDict()

    def _signs_of_all(self, about: type) -> int:
        """Return the signs that every such situation has: all, where a check's trigger has no sign of its own."""
        groups = self._rules.book.questions(StepType(about.__name__)).remarks
        has_signs = all(checked.check.trigger.sign for group in groups for checked in group)
        return 0 if has_signs and not self._rules.exact else ALL_SIGNS

    @property
    def partitions(self) -> list[SharePartition]:
        """All share partitions, by group, topic and number."""
        return sorted(self._partitions.values(), key=_order)

    def find(self, group_id: str | None, partition: Partition) -> SharePartition | None:
        """Return the share partition; None if no request acknowledged or acquired records of it."""
        return self._groups.get(group_id, {}).get(partition)

    def of_group(self, group_id: str | None) -> list[SharePartition]:
        """Return the share partitions of a group."""
        return [*self._groups.get(group_id, {}).values()]

    # -- input

    def ask(self, step: ShareStep) -> Sequence[Acknowledging]:
        """Return a request's acknowledgements, by partition, with the records' states. Pass them to `answer` later."""
        seen: dict[Partition, Acknowledging] = {}
        for listed in step.listed:
            batches = listed.acknowledged
            if not batches:
                continue
            partition = self._of(step, listed.partition)
            pieces: list[Piece] = []
            for batch in batches:
                pieces += partition.records.over(batch.first, batch.last)
            # brokers apply the last of several entries for a partition
            request = OpenRequest(step, runs_of(batches))
            seen[listed.partition] = Acknowledging(step, partition, batches, request, pieces)
        for acknowledging in seen.values():
            partition = acknowledging.share_partition
            partition.open.append(acknowledging.open)
            if partition.stored is not None:
                acknowledging.stored = partition.stored[1]
        return [*seen.values()]

    def drop(self, asked: Sequence[Acknowledging]) -> None:
        """Drop acknowledgements whose request is a copy."""
        for acknowledging in asked:
            acknowledging.share_partition.open.remove(acknowledging.open)

    def answer(
        self, step: ShareStep, asked: Sequence[Acknowledging], acquired: Sequence[Acquired], session: SessionState
    ) -> Sequence[Verdict]:
        """Take an answer, or that there is none, and return its verdicts. The step is settled already."""
        answer = step.answer
        verdicts: list[Verdict] = []
        if answer is not None and answer.failed:
            self._failed_partitions(step, answer, verdicts)
        if session.hints or (answer is not None and answer.leaders):
            verdicts += self._misdirected(step, answer, session)
        verdicts += self._rules.prove(session)
        if not acquired and step.any_doubt is not None:
            session.unread = step.end
        if answer is None and step.is_fetch:
            session.last_unanswered_fetch = step.end
        if (
            step.reply is SESSION_NOT_FOUND and session.last_acquisition
        ):  # also what it acquired after an end that was seen
            session.last_acquisition = None
            self._release(session, (step.group_id, step.member_id), (step.end, step.end_ns), None, None)
        if acquired or asked or step.kind is FINAL:
            self._take_records(step, asked, acquired, session, verdicts)
        elif step.is_fetch and (
            step.group_id in self._wide.groups or answer is None or answer.throttled or answer.error
        ):
            self._without_records(step, session, verdicts)
        return verdicts

    def _take_records(
        self,
        step: ShareStep,
        asked: Sequence[Acknowledging],
        acquired: Sequence[Acquired],
        session: SessionState,
        verdicts: list[Verdict],
    ) -> None:
        """Take the acknowledgements, then the acquired records."""
        answer = step.answer
        for acknowledging in asked:
            self._acknowledged(acknowledging, answer, session, verdicts)
        if answer is not None and acquired:
            self._acquire(step, answer, acquired, session, verdicts)
        elif step.is_fetch:
            self._without_records(step, session, verdicts)
        if step.kind is FINAL and step.reply is ACCEPTED:
            self._closed_session(step, session)

    def _closed_session(self, step: ShareStep, session: SessionState) -> None:
        """Release the member's records in the session's partitions after an accepted request with epoch -1."""
        self._release(session, (step.group_id, step.member_id), (step.end, step.end_ns), session.in_flight.closed, step)

    def ended(self, connection: ConnectionFacts, user: User, at: End | Answer, *, noticed: bool = True) -> None:
        """Take the end of a connection: it ends the session that was opened last on it, except with brokers of 4.0
        (KAFKA-19015).

        Only the records of the session's partitions are released; records of other partitions stay locked. Until 4.1
        the end of an older connection may also end the session (KAFKA-19950). `at`: the end, or the answer after which
        the broker notices it. If it had not `noticed` the end before, another session of the member may have replaced
        this one and acquired the records."""
        session: SessionState = user.state
        opening = session.opening
        is_older = opening is not None and opening.connection is not connection
        dies = agreed(session.releases, "dies_with_older_connection" if is_older else "dies_with_connection")
        if dies is False or (is_older and not session.may_have_replaced(connection)):
            return
        is_certain = noticed and dies and opening is not None and not is_older and _is_alone(session, connection)
        held = session.in_flight.partitions if is_certain else None
        self._release(session, user.owner, (at.packet, at.time_ns), held, None)

    def _release(
        self,
        session: SessionState,
        of: Owner,
        at: tuple[int, int],
        held: Collection[Partition] | None,
        by: ShareStep | None,
    ) -> None:
        """Release the member's records, as its session ended or may have ended: in `held` partitions for certain, in
        others possibly."""
        (group_id, member_id), (packet, time_ns), broker = of, at, session.broker
        uncounted = agreed(session.releases, "release_uncounts")
        locks = self._locks.get(group_id)
        for partition in () if locks is None else locks.concern(member_id, broker, time_ns, held or ()):
            share_partition = self._groups[group_id][partition]
            if share_partition.leader is broker:
                certain = held is not None and partition in held
                share_partition.let_go(member_id, packet, time_ns, certain=certain, uncounted=uncounted, by=by)

    # -- exchanges with a share coordinator

    def store(self, step: StateStep) -> None:
        """Take the state that a leader reads or writes: it shows the leader's view of the records."""
        key = step.call.group_id, step.partition
        partition = self._partitions.get(key)
        # A write that cannot be read may hold what is awaited, so nothing is missing.
        if step.call.any_doubt is not None and step.is_write and partition is not None:
            partition.persistence.write(step, stored_of(step.batches), is_awaited=bool(partition.open))
        if not step.accepted or step.call.any_doubt is not None:
            return
        if step.is_read and step.given is not None and step.given.start_offset is not None:
            self._initial_states[key] = step.given.start_offset, stored_of(step.given.batches), step
            if len(self._initial_states) > limits.SHARE_PARTITIONS:
                self._initial_states.popitem(last=False)
            if partition is not None:
                self._begin(partition)
        elif partition is None or step.start_offset is None:
            return
        elif step.is_write:
            stored = stored_of(step.batches)
            partition.follow(step.call)
            partition.write(step.call.end, step.call.time_ns, step.call.end_ns, step.start_offset, stored)
            partition.note_stored(step.start_offset, step)
            partition.persistence.write(step, stored, is_awaited=bool(partition.open))
        elif step.call.api_key == INITIALIZE_SHARE_GROUP_STATE and step.start_offset >= 0:
            partition.reset(step.call.end, step.call.end_ns, step.start_offset)

    def _begin(self, partition: SharePartition) -> None:
        begun = self._initial_states.pop((partition.group_id, partition.partition), None)
        if begun is not None:
            start, stored, read = begun
            if partition.acquired_here:
                partition.known = Known(read.call.end, because="leader_moved")
            partition.begin(start, stored, read.call.end_ns)
            partition.note_stored(start, read)
            partition.seen = max(partition.seen, read.call.end)  # an earlier restart no longer matters
            for lost in self._lost_fetches.of(partition.group_id, partition.leader):
                if may_have_acquired(lost, read.packet, read.call.time_ns):
                    partition.miss(lost)

    # -- one partition

    def _acknowledged(
        self, asked: Acknowledging, answer: Answer | None, session: SessionState, verdicts: list[Verdict]
    ) -> None:
        """Take the answer to the acknowledgements of one partition."""
        step, partition = asked.step, asked.share_partition
        if partition.locks.first_ns < step.end_ns:
            partition.time(step.end, step.end_ns)  # while the request is open: its answer decides on these locks
        partition.open.remove(asked.open)
        if answer is not None and step.reply is ACCEPTED and step.any_doubt != "cut":
            self._judge_acknowledgement(asked, answer, session, verdicts)
            if asked.error in _NOT_APPLIED:
                partition.refuse(asked.open, answer.packet)
            if asked.error == _INVALID_RECORD_STATE:
                partition.refused.append(asked.open)
            elif asked.error not in _RELIABLE:
                partition.changes_until(answer.packet)
            if asked.error == 0:
                partition.follow(step)
                partition.acknowledge(step, asked.runs, certain=step.any_doubt is None)
        elif step.reply in _UNCERTAIN or step.any_doubt == "cut" or (step.reply is INVALID_EPOCH and step.is_fetch):
            partition.acknowledge(step, asked.runs, certain=False)
        elif answer is not None and step.reply is not SESSION_NOT_FOUND:  # the request did not reach the records
            partition.refuse(asked.open, answer.packet)
        if not partition.open:
            partition.persistence.rest()

    def _judge_acknowledgement(
        self, asked: Acknowledging, answer: Answer, session: SessionState, verdicts: list[Verdict]
    ) -> None:
        """Ask the rules about acknowledgements that were answered one by one, and about the state stored for them."""
        step, partition = asked.step, asked.share_partition
        asked.error = answer.acknowledged.get(partition.partition)
        if asked.error in EXPLAINED:
            asked.received = received_by(step, session, partition.known.because)
            asked.pieces = [partition.between(piece, step.time_ns, answer.time_ns) for piece in asked.pieces]
        self._rules.count(asked)
        if asked.error == 0 and step.kind is not FINAL:  # a member that leaves releases its rest
            asked.rate = self._rates.count(step, partition.partition[0], asked.runs)
        signs = self._of_acknowledging or fast_path.acknowledged(asked)
        if signs and self._rules.ask_uncounted(asked, verdicts, signs=signs) == "unknown":
            partition.changes_until(step.end)
        before = asked.stored
        if before is not None and (
            asked.error != 0 or self._looks_at_all or not partition.persistence.is_as_acknowledged(step, asked.runs)
        ):
            self._judge_persisted(asked, before, verdicts)

    def _judge_persisted(self, asked: Acknowledging, before: StateStep, verdicts: list[Verdict]) -> None:
        """Compare the stored state with the answered acknowledgements, and judge the difference."""
        accepted = asked.error == 0
        situation = Persisted(
            asked.step,
            asked,
            asked.share_partition.persistence.answered(asked.step, asked.runs, before, accepted=accepted),
        )
        self._rules.ask(situation, verdicts)

    def _acquire(
        self,
        step: ShareStep,
        answer: Answer,
        acquired: Sequence[Acquired],
        session: SessionState,
        verdicts: list[Verdict],
    ) -> None:
        """Acquire the answer's records. Rules judge an unusual acquisition by the records' states before the answer."""
        session.last_acquisition = step, acquired
        until_ns = answer.time_ns + step.connection.clock.disorder_ns
        for key, ranges in groupby(acquired, _partition):
            partition = self._of(step, key)
            partition.follow(step)
            ranges_acquired, signs = fast_path.acquired_ranges(partition, ranges, answer.spans.get(key), step, until_ns)
            signs |= self._of_acquiring
            locked = partition.locked
            if (
                locked is None
                or locked.lock_ns != answer.lock_ns
                or partition.earlier is not None
                or step.most_records is not None
            ):
                signs |= self._partition_signs(step, answer, partition)
            if partition.locks.first_ns < answer.time_ns:
                partition.time(answer.packet, answer.time_ns)  # a lock that ends here may have ended a last delivery
            if signs or partition.last_attempts.ranges or self._rules.counter is not None:
                self._judge_acquisition(step, answer, session, partition, ranges_acquired, signs, verdicts)
            has_transactions = key in self.transactions.places or key in answer.transactions
            if has_transactions:
                self._note_aborted(partition, answer, ranges_acquired)
            partition.acquire(step, answer, ranges_acquired)
            if has_transactions:
                partition.may_end_in_aborted = self.transactions.may_be_aborted(key, partition.end)
            if locked is None or locked.lock_ns != answer.lock_ns:
                self._lock_times[step.group_id].acquired(partition, locked)
            if partition.window.last - partition.window.low >= LEAST - 1:
                self._wide.add(partition)
        answer.spans = {}  # the records hold what matters of them

    def _note_aborted(self, partition: SharePartition, answer: Answer, acquired: Sequence[AcquiredRange]) -> None:
        """Note the aborted records that the leader took out of an acquisition: those below the last new records.

        The leader acquires all offsets up to the last one that nobody has.
        """
        key = partition.partition
        self.transactions.read(key, answer.transactions.get(key, ()), answer.spans.get(key), answer.packet)
        until = max([range_.first for range_ in acquired if range_.number == 1], default=-1)
        first = partition.start or 0
        if first < until and (aborted := self.transactions.aborted(partition.partition, first, until - 1)):
            partition.note_aborted(acquired, [(range_.first, range_.last) for range_ in aborted])

    def _partition_signs(self, step: ShareStep, answer: Answer, partition: SharePartition) -> int:
        """Return the signs of an acquisition that do not depend on its records."""
        signs = 0 if step.most_records is None else LIMITED.sign
        if partition.earlier is not None:
            signs |= ANEW.sign
        return (
            signs if self._lock_times[step.group_id].other(partition, answer.lock_ns) is None else signs | RELOCKED.sign
        )

    def _judge_acquisition(
        self,
        step: ShareStep,
        answer: Answer,
        session: SessionState,
        partition: SharePartition,
        ranges_acquired: Sequence[AcquiredRange],
        signs: int,
        verdicts: list[Verdict],
    ) -> None:
        """Judge an acquisition that has a sign, or that may show that records were given up."""
        given_up_ranges = (
            given_up(partition, ranges_acquired[0].first, step.time_ns) if partition.last_attempts.ranges else ()
        )
        if given_up_ranges:
            signs |= GIVEN_UP.sign
        if not signs and self._rules.counter is None:
            return
        lost_fetches = self._lost_fetches.of(step.group_id, partition.leader)
        locked = self._lock_times[step.group_id].other(partition, answer.lock_ns) if signs & RELOCKED.sign else None
        situation = Acquiring(step, answer, session, partition, ranges_acquired, lost_fetches, given_up_ranges, locked)
        self._rules.count(situation)
        if signs:
            self._rules.ask_uncounted(situation, verdicts, signs=signs)

    def _failed_partitions(self, step: ShareStep, answer: Answer, verdicts: list[Verdict]) -> None:
        """Take the partitions that could not be fetched from."""
        group_partitions = self._groups.get(step.group_id, {})
        for key, error in answer.failed.items():
            has_served = (step.group_id, key) in self._initial_states
            if (partition := group_partitions.get(key)) is not None:
                partition.changes_until(answer.packet)
                has_served = has_served or partition.last_delivery_packet > 0 or partition.stored is not None
            situation = Unserved(step, key, error, has_served)
            self._rules.ask(situation, verdicts)

    def _misdirected(self, step: ShareStep, answer: Answer | None, session: SessionState) -> Sequence[Verdict]:
        """Judge fetches of partitions whose leader an earlier answer already named."""
        if not step.is_fetch or answer is None or step.reply is not ACCEPTED:
            return ()
        verdicts: list[Verdict] = []
        before, session.hints = session.hints, {}
        for partition, leader in answer.leaders.items():
            hint = before.get(partition)
            if hint is None or hint.leader != leader:
                hint = Hint(leader, step, step)
            else:
                situation = Misdirected(step, session, partition, hint)
                self._rules.ask(situation, verdicts)
            session.hints[partition] = hint._replace(last=step)
        return verdicts

    def _without_records(self, step: ShareStep, session: SessionState, verdicts: list[Verdict]) -> None:
        """Take a fetch that acquired no records."""
        if self._lost_fetches.add(step, session):
            for partition in self._groups.get(step.group_id, {}).values():
                if partition.leader is session.broker:
                    partition.miss(step)
        if step.group_id in self._wide.groups:
            for situation in self._wide.starving(step, session):
                self._rules.ask(situation, verdicts)

    def close(self) -> Sequence[Verdict]:
        """End the capture. Waiting verdicts are not proved."""
        return self._rules.close()

    # -- all of them

    def _of(self, step: ShareStep, partition: Partition) -> SharePartition:
        """Return the share partition, led by the broker of the request."""
        key = step.group_id, partition
        broker = step.connection.broker
        assert broker is not None
        share_partition = self._partitions.get(key)
        if share_partition is None:
            share_partition = self._partitions[key] = SharePartition(
                step, partition, broker, self._locks[step.group_id], self._on_change
            )
            if self._has_forgotten:
                share_partition.known = Known(step.packet, because="limit")  # it may be one of the forgotten ones
            self._groups.setdefault(step.group_id, {})[partition] = share_partition
            self._begin(share_partition)
            if len(self._partitions) > limits.SHARE_PARTITIONS:
                self._forget(*self._partitions.popitem(last=False)[0])
                self._has_forgotten = True
            self._room = min(limits.DONE_RANGES // len(self._partitions), limits.IN_FLIGHT_RANGES)
        else:
            self._partitions.move_to_end(key)
        share_partition.room = self._room
        share_partition.meets(step, broker)
        return share_partition

    def forget(self, broker: Broker) -> None:
        """Forget the share partitions of a leader that belongs to another cluster."""
        for group_id, partition in [key for key, known in self._partitions.items() if known.leader is broker]:
            del self._partitions[group_id, partition]
            self._forget(group_id, partition)

    def _forget(self, group_id: str | None, partition: Partition) -> None:
        group_partitions = self._groups[group_id]
        gone = group_partitions.pop(partition)
        gone.locks.clear()
        self._lock_times[group_id].drop(gone, gone.locked)
        if not group_partitions:
            del self._groups[group_id], self._locks[group_id], self._lock_times[group_id]
        self._wide.drop(group_id, partition)


def _order(partition: SharePartition) -> tuple[str, Partition]:
    return partition.group_id or "", partition.partition


def _is_alone(session: SessionState, connection: ConnectionFacts) -> bool:
    """True if no other member's session used the connection: its end closes only the last session that was opened on
    it, or none (4.2)."""
    return all(user.state is session for user in connection.users.values())


class ClusterPartitions(dict[int, PartitionRunner]):
    """The runner of share partitions of each cluster, by its number (kshark.clusters). Beyond limits.CLUSTERS clusters
    share one runner."""

    def __init__(
        self,
        book: RuleBook,
        on_change: Callable[[Change], object] | None,
        counter: CoverageCounter | None,
        *,
        exact: bool,
    ) -> None:
        self._made = partial(PartitionRunner, book, on_change, counter, exact=exact)

    def __missing__(self, cluster: int) -> PartitionRunner:
        made = self[cluster] = self._made() if len(self) < limits.CLUSTERS else next(iter(self.values()))
        return made

    @property
    def partitions(self) -> list[SharePartition]:
        """All share partitions, by group, topic and number."""
        every = [partition for runner in self._each for partition in runner.partitions]
        return sorted(every, key=_order)

    def aborted(self, offset: int) -> list[tuple[Partition, Aborted]]:
        """Return the aborted batches that have an offset, in all partitions."""
        each = (runner.transactions.aborted_at(offset) for runner in self._each)
        return [(partition, batch.value) for batches in each for partition, batch in batches]

    def last_acquisition(self, broker: Broker | None, group_id: str | None, partition: Partition) -> Acquisition | None:
        """Return the last acquisition from a partition in the broker's cluster; None where there was none."""
        share_partition = self[0 if broker is None else broker.cluster].find(group_id, partition)
        if share_partition is None or share_partition.window.by is None:
            return None
        return Acquisition(share_partition.leader, share_partition.window.by)

    def store(self, step: StateStep) -> None:
        """Take a step with a share coordinator."""
        broker = step.call.connection.broker
        self[0 if broker is None else broker.cluster].store(step)

    def close(self) -> Sequence[Verdict]:
        """End the capture and return the verdicts that remain."""
        return [verdict for runner in self._each for verdict in runner.close()]

    @property
    def _each(self) -> list[PartitionRunner]:
        return [*dict.fromkeys(self.values())]
