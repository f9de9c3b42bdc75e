"""One share partition: the possible states of its records (KIP-932; Kafka: SharePartition).

A range of offsets has a set of possible records. After an acknowledgement without an answer a record is acknowledged or
not; near the expiry of a lock it is still held or not. An answer keeps the states that agree with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import Answer, Call, Partition, ShareStep
from kshark.analysis.facts.known import ALWAYS, BEGINNING, Known
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.partition.last_attempts import LastAttempts
from kshark.analysis.states.partition.locks import GroupLocks, Locks
from kshark.analysis.states.partition.persisting import Persistence, concern
from kshark.analysis.states.partition.records_in_flight import (
    TIMER_NS,
    UNEXPLAINED,
    AcknowledgedRange,
    AcquiredRange,
    Hold,
    Locked,
    May,
    OpenRequest,
    Piece,
    RecordState,
    StoredRange,
    between_times,
    held_before,
    insert_before,
    is_done,
    keep_stored,
    settled,
)
from kshark.analysis.states.partition.window import Window
from kshark.analysis.states.tables.in_flight import (
    ACQUIRED,
    AFTER,
    EVENT,
    LEAST_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    TERMINAL,
)
from kshark.offset_ranges import OffsetRanges

#: The broker starts the lock timer a little after the request arrives. If the answer lacks the duration, the limits of
#: the broker's option hold (group.share.record.lock.duration.ms).
_SHORTEST_NS: Final = 1_000_000_000
_LONGEST_NS: Final = 3_600_000_000_000
#: Under load a broker's timer runs later than TIMER_NS: Kafka 4.4.0 accepted an acknowledgement sent 0.7 s after the
#: lock's end.
_LATE_TIMER_NS: Final = 1_000_000_000
#: Acknowledgements that end a record.
_ENDS: Final = AFTER.keys() - {RELEASE, RENEW}
#: Acknowledgements whose result the stored state shows: whether it was the last delivery, and whether a dead-letter
#: queue exists.
_GIVES_BACK: Final = frozenset({RELEASE, REJECT})
#: Highest number of kept requests whose acknowledgements were refused.
_REFUSED: Final = 16
_first: Final = itemgetter(0)


class Change(Struct, frozen=True):
    """A change of records; `step` None: no request caused it, as for an expired lock."""

    partition: SharePartition
    packet: int
    time_ns: int
    event: str
    member_id: str | None
    first: int
    last: int
    step: ShareStep | None


#: Most ranges of aborted records that are kept; the oldest are forgotten first.
_ABORTED: Final = 100


class ShownStart(NamedTuple):
    """The start offset of a share partition for people.

    `offset`: None if it is unknown; then it is `least` or higher.
    `source`: `stored`: the leader read or stored it. `seen`: since then, or since the first acquisition, all records
    below it have ended in the capture. `aborted`: the same, but for records of aborted transactions, which the leader
    does not deliver. `passed_over`: it is unknown, because no member in the capture acquired `least`.
    `packet`: the end of the last exchange that read or stored the state.
    """

    offset: int | None
    source: str | None
    packet: int | None
    least: int | None


class SharePartition:
    """The records of a share partition. `acquire`, `acknowledge`, `let_go` and `lose_sight` change their states.

    `over`: returns the possible states of records.
    `leader`: the broker of the last request, which was packet `seen`.
    `hosts`: the hosts of the members.
    `start`: the start offset, below which all records are ended; None: unknown.
    `end`: the next offset to acquire.
    `highest`: the highest delivery count seen.
    """

    def __init__(
        self,
        step: ShareStep,
        partition: Partition,
        leader: Broker,
        group: GroupLocks,
        report: Callable[[Change], object] | None = None,
    ) -> None:
        self.group_id = step.group_id
        self.partition = partition
        self.leader = leader
        self.seen = step.packet
        self.hosts: dict[str, None] = {}
        self.records: OffsetRanges[May] = OffsetRanges()
        self.start: int | None = None
        self.end: int | None = None
        self.highest = LEAST_LIMIT
        #: The highest offset that was acquired, from this leader or an earlier one.
        self.reached = -1
        #: The packets in which its state is known, and those in which the order of its changes is.
        self.known = Known(because=BEGINNING.because)
        self.changes = ALWAYS
        #: The records before the state became unknown, and the reason; None after the next acquisition.
        self.earlier: tuple[OffsetRanges[May], str] | None = None
        #: The start offset that its leader read or stored last, and the exchange.
        self.stored: tuple[int, StateStep] | None = None
        #: The first such exchange since the state was last read or set anew. None: none of them is in the capture.
        self.first_stored: StateStep | None = None
        self.persistence = Persistence()
        #: Highest number of kept ranges with ended records, and the highest offset of forgotten ranges.
        self.room = limits.IN_FLIGHT_RANGES
        self.forgotten = -1
        #: Requests whose acknowledgements have no answer yet, and the last ones whose acknowledgements were refused.
        self.open: list[OpenRequest] = []
        self.refused: deque[OpenRequest] = deque(maxlen=_REFUSED)
        #: The last packet that delivered records, and the last acquisition with a lock duration in its answer.
        self.last_delivery_packet = 0
        self.locked: Locked | None = None
        #: The last exchange that changed records.
        self.last: Call | None = None
        self.last_attempts = LastAttempts()
        self.window = Window()
        #: The last offsets of aborted transactions that the leader took out, and the first offset after those at the
        #: start offset: the leader moves past them with the next change of other records.
        self.aborted: deque[tuple[int, int]] = deque(maxlen=_ABORTED)
        self._after_aborted = -1
        #: Ended records of a transaction may follow the records in flight; the leader has taken out more records with
        #: them if that was aborted. Then the start offset is unknown as soon as it gets there (`_is_beyond`).
        self.may_end_in_aborted = self._is_beyond = False
        #: The packet of the first acquisition, 0 before it; None: records may have been acquired before the capture.
        self._begun_at: int | None = None
        self._report = report
        self.locks: Final = Locks(partition, group, leader)

    def meets(self, step: ShareStep, broker: Broker) -> None:
        """Note a request and its broker. The state is unknown after a new leader, a restart or missing bytes."""
        self.hosts[step.connection.host] = None
        if self.leader is not broker:
            self.lose_sight(step.packet, "leader_moved")
            self.leader = self.locks.leader = broker
        elif broker.restarts or broker.holes:
            restarted = broker.restarted_between(self.seen, step.packet) is not None
            if why := "broker_restart" if restarted else broker.missing_between(self.hosts, self.seen, step.packet):
                self.lose_sight(step.packet, why)
        self.seen = step.packet

    def follow(self, step: Call) -> None:
        """Note that records change. If the order of the last two changes is uncertain, the state may be outdated."""
        last, self.last = self.last, step
        if last is None or last.connection is step.connection:
            return
        if last.end > step.end or not step.connection.clock.is_before(last.end_ns, step.end_ns):
            self.changes_until(max(last.end, step.end))

    def changes_until(self, packet: int) -> None:
        """Note that the order of changes up to that packet is unknown: nothing that rests on it is reported."""
        self.changes = Known(packet + 1)

    # -- possible states

    @property
    def awaited(self) -> list[AcknowledgedRange]:
        """The acknowledgements that wait for their answer."""
        return [run for request in self.open for run in request.runs]

    @property
    def shown_start(self) -> ShownStart:
        """The start offset, as far as the capture shows it.

        The leader may have passed over offsets that no member in the capture acquired: those of aborted transactions
        (share.isolation.level read_committed), or those that members outside the capture have ended: then it is
        unknown. The former is shown by their batch and its abort marker, wherever the capture has these
        (kshark.analysis.facts.transactions).
        """
        start, (stored, step) = self.start, self.stored or (None, None)
        packet = None if step is None else step.call.end
        if start is None:
            return ShownStart(None, None, None, None)
        past = max(start, self._after_aborted)
        if self._is_beyond:
            return ShownStart(None, "passed_over", packet, past)
        if past == start == stored:
            return ShownStart(start, "stored", packet, start)
        is_unknown = self.end is not None and past < self.end and self.records.at(past) is None
        if is_unknown and self._past_aborted(past) == past:
            return ShownStart(None, "passed_over", packet, past)
        return ShownStart(past, "seen" if past == start else "aborted", packet, past)

    def _past_aborted(self, start: int) -> int:
        """Return the first offset from `start` on that is neither ended nor aborted."""
        for first, last in sorted(self.aborted):
            if first <= start <= last:
                start = self.records.passed(last + 1, is_done)
        return start

    @property
    def next_offset(self) -> int | None:
        """The next offset to acquire after aborted records; None if it is unknown."""
        end = self.start if self.end is None else self.end
        return None if end is None else self._past_aborted(end)

    def note_aborted(self, ranges: Sequence[AcquiredRange], aborted: Iterable[tuple[int, int]]) -> None:
        """Note aborted records that an answer passes over, if no member has acquired them."""
        for offsets in aborted:
            is_free = not any(self.records.over(*offsets)) and not _within(offsets, ranges)
            if is_free and offsets not in self.aborted:
                self.aborted.append(offsets)

    @property
    def acquired_here(self) -> bool:
        """True if records were acquired since the state became unknown."""
        return len(self.records) > 0

    def over(self, first: int, last: int, since_ns: int, until_ns: int) -> list[Piece]:
        """Return the possible states of these offsets between two times."""
        return [self.between(piece, since_ns, until_ns) for piece in self.records.over(first, last)]

    def between(self, piece: Piece, since_ns: int, until_ns: int) -> Piece:
        """Return the possible states of a piece between two times."""
        return between_times(piece, since_ns, until_ns, self.highest)

    # -- events

    def acquire(self, step: ShareStep, answer: Answer, ranges: Iterable[AcquiredRange]) -> None:  # noqa: C901 - hot loop
        """Note the records that an answer delivers."""
        if self.locked is not None and self.locked.step.connection.broker is not self.leader:
            self._note_new_leader(answer)
        self.earlier, self.last_delivery_packet = None, answer.packet
        records, locks, window, lock_ns = self.records, self.locks, self.window, answer.lock_ns
        if locks.first_ns < answer.time_ns:
            self.time(answer.packet, answer.time_ns)
        if self.open:
            ranges = [*ranges]
            self._redelivered(answer, ranges)
        early = step.time_ns + (_SHORTEST_NS if lock_ns is None else lock_ns)
        late = answer.time_ns + TIMER_NS + (_LONGEST_NS if lock_ns is None else lock_ns)
        if lock_ns is not None:
            self.locked = Locked(step, lock_ns)
        for first, last, count, pieces, lacks, later in ranges:
            if first > last:
                continue
            if pieces and self._report is not None:
                self._note_expired(answer, first, last, count)
            hold = Hold(step, early, late, None, held_before(pieces) if pieces else None, lacks, last - first + 1)
            if count > self.highest:
                self.highest = count
            records.put(first, last, (RecordState(ACQUIRED, count, hold, step, "acquired"),))
            locks.add(hold, first, last)
            for piece in later:  # these records were delivered again since
                records.put(piece.first, piece.last, insert_before(piece.value, hold))
            if self._begun_at is not None and (self.start is None or first < self.start):
                self.start, self._begun_at = first, self._begun_at or answer.packet  # answers may overtake each other
            if self.end is None or last >= self.end:
                self.end = last + 1
                if last > self.reached:
                    self.reached = last
            if first < window.low or last > window.last:
                window.acquire(step, first, last)
            if self._report is not None:
                self._notify(answer.packet, answer.time_ns, "acquired", step, first, last)
        count = len(records)
        locks.trim(records, count)
        if count > self.room:
            self._forget(count)

    def _note_new_leader(self, answer: Answer) -> None:
        """Report a new leader, with the extent of the records in flight at the earlier one."""
        left = (
            [piece for piece in self.earlier[0].over(0, self.reached) if not is_done(piece.value)]
            if self.earlier is not None
            else []
        )
        first, last = (left[0].first, left[-1].last) if left else (self.reached + 1, self.reached)
        self._notify(answer.packet, answer.time_ns, "leader_changed", None, first, last)

    def miss(self, fetch: ShareStep) -> None:
        """Note a fetch that may have acquired records without delivering them.

        Then the first seen records may not be the first of the partition.
        """
        if self._begun_at is not None and (self.start is None or self._begun_at > fetch.packet):
            self._begun_at = self.start = None

    def acknowledge(self, step: ShareStep, runs: Iterable[AcknowledgedRange], *, certain: bool) -> None:
        """Note acknowledgements. They were accepted if `certain`, else they may have been."""
        if self.locks.first_ns < step.end_ns:
            self.time(step.end, step.end_ns)
        applied: list[AcknowledgedRange] = []
        for run in runs:
            first, last, kind = run
            if kind not in AFTER:
                continue
            known_offsets, changed = self.records.change(first, last, partial(self._after, kind, step, certain))
            if (certain and known_offsets <= last - first and self._fill(run, step)) or changed:
                applied.append(run)
        if not applied:
            return
        if self.persistence.writes and not _GIVES_BACK.isdisjoint(run.type for run in applied):
            keep_stored(self.records, step, self.persistence.since(step))
        self._advance()
        if (count := len(self.records)) > self.room:
            self._forget(count)
        if certain and self._report is not None:
            for run in applied:
                self._notify(step.end, step.end_ns, EVENT[run.type], step, run.first, run.last)

    def _fill(self, run: AcknowledgedRange, step: ShareStep) -> bool:
        """Set the unknown offsets of an acknowledgement. Return True if there were some."""
        missing = [
            (first, last)
            for first, last in self.records.gaps(run.first, run.last)
            if self.start is None or first >= self.start
        ]
        for first, last in missing:
            self.records.put(first, last, (RecordState(AFTER[run.type], None, None, step, EVENT[run.type]),))
        return bool(missing)

    def _after(self, kind: int, step: ShareStep, certain: bool, may: May, first: int, last: int) -> May:
        """Return the possible states of these records after an acknowledgement."""
        if certain and len(may) == 1 and kind in _ENDS:
            (record,) = may
            hold = record.hold
            if record.stage is ACQUIRED and hold is not None and hold.is_of(step):  # usual
                hold.left -= last - first + 1
                return (RecordState(AFTER[kind], record.count, hold, step, EVENT[kind]),)
        becomes: list[RecordState] = []
        for record in may:
            hold = record.hold
            if record.stage is not ACQUIRED or hold is None or not hold.is_of(step):
                if certain and hold is not None and hold.step.member_id == step.member_id:
                    # Its member acknowledged them before their delivery was seen: packets are out of order.
                    self.changes_until(step.end)
                continue
            becomes += self._become(record, hold, kind, step, first, last)
            if certain and len(may) == 1:
                hold.left -= last - first + 1
        if becomes:
            if kind == RELEASE:
                self.last_attempts.give_back(first, last, becomes)
            return tuple(becomes) if certain else (*may, *becomes)
        newer = any(record.by is not None and record.by.end > step.packet for record in may)
        if newer or not certain or all(record.stage in TERMINAL for record in may):
            return may
        return (RecordState(AFTER[kind], None, None, step, EVENT[kind]),)

    def _become(
        self, record: RecordState, hold: Hold, kind: int, step: ShareStep, first: int, last: int
    ) -> list[RecordState]:
        """Return the possible states of acquired records after their member acknowledges them."""
        if kind == RELEASE:
            return record.given_back(EVENT[RELEASE], step, self.highest)
        lock = hold.renewed(step, last - first + 1) if kind == RENEW else hold
        if lock is not hold:
            self.locks.add(lock, first, last)
        return [RecordState(AFTER[kind], record.count, lock, step, EVENT[kind])]

    def let_go(
        self,
        member_id: str | None,
        packet: int,
        time_ns: int,
        *,
        certain: bool,
        uncounted: bool | None,
        by: ShareStep | None = None,
    ) -> None:
        """Release the member's records, because its session with the leader is over.

        Not `certain`: it may be over. The method may be called more than once.
        `uncounted`: the broker also takes the delivery off the count, unless the lock had expired before; None:
        unknown.
        """
        self.time(packet, time_ns, grace_ns=0)
        for piece in self._locked(member_id, new=not certain):
            own = [record for record in piece.value if record.is_held_by(member_id)]
            if not own or (
                not certain
                and any(record.hold is own[0].hold and record.how == "session_released" for record in piece.value)
            ):
                continue
            taken_back = None if uncounted and own[0].may_run_out(time_ns) else uncounted
            back = [
                after
                for record in own
                for after in record.given_back("session_released", by, self.highest, uncounted=taken_back)
            ]
            others = [
                record
                for record in piece.value
                if not record.is_held_by(member_id) and record.how != "session_released"
            ]
            hold = own[0].hold
            for part, requests in self._by_open(piece, hold) if certain and hold is not None else ((piece, ()),):
                is_over = certain and not requests  # the broker may have applied an open acknowledgement before
                self.records.put(part.first, part.last, (*(others if is_over else piece.value), *back))
                self.last_attempts.give_back(part.first, part.last, back)
                if not is_over:
                    continue
                for hold in {record.hold for record in own if record.hold is not None}:
                    hold.left -= part.last - part.first + 1
                if not others:
                    self._notify(packet, time_ns, "session_released", own[0].by, part.first, part.last)

    # -- stored state of the share coordinator

    def begin(self, start: int, stored: Iterable[StoredRange], time_ns: int) -> None:
        """Set the state that a new leader reads. -1: the start offset is set by the first acquisition.

        Unseen earlier acquisitions may still be given back and stored until their locks expire. They are new to the
        leader.
        """
        earlier = self.records
        self._begin_anew("read", 0 if self.locked is None else time_ns + self.locked.lock_ns + TIMER_NS)
        for piece in earlier.over(0, start - 1):
            if is_done(piece.value):  # they stay ended, for repeated acknowledgements
                self.records.put(*piece)
        self._begun_at = 0 if start < 0 else None
        self._forget_aborted()
        self.start = self.end = None if start < 0 else start
        for batch in stored:
            self.records.put(batch.first, batch.last, (RecordState(batch.stage, batch.deliveries, None, None, "read"),))
            for piece in earlier.over(batch.first, batch.last) if batch.stage in TERMINAL else ():
                if {record.stage for record in piece.value} == {batch.stage}:  # keeps the known cause
                    self.records.put(*piece)
            self.end = batch.last + 1 if self.end is None else max(self.end, batch.last + 1)
        self._advance()

    def write(self, packet: int, sent_ns: int, time_ns: int, start: int, stored: Sequence[StoredRange]) -> None:
        """Note a stored state: uncertain states become certain. Acknowledgements without an answer yet are left out."""
        if self.locks.first_ns < time_ns:
            self.time(packet, time_ns)
        before = self.start
        if start >= 0:  # a stored start offset is more certain than one guessed from the first acquisition
            is_guess = (
                self._begun_at is not None
                and self.forgotten < 0
                and before is not None
                and not any(self.records.over(start, before - 1))
            )
            self.start = start if before is None or start > before or is_guess else before
            self._begun_at = None
        asked = self.awaited
        # a batch that begins like an acknowledgement is part of it
        news = [] if set(map(_first, asked)).issuperset(map(_first, stored)) else concern(stored, asked)
        events = [
            event
            for batch, is_asked in zip(stored, news, strict=False)
            if not is_asked
            for event in self._settle(sent_ns, time_ns, batch)
        ]
        if news or self.start != before:
            self._advance()
        if start >= 0:
            self._forget_aborted()
        for event, step, first, last in events:
            self._notify(packet, time_ns, event, step, first, last)

    def note_stored(self, start: int, step: StateStep) -> None:
        """Note what the leader has read or stored."""
        self.stored = start, step
        if step.is_read or self.first_stored is None:
            self.first_stored = step

    def reset(self, packet: int, time_ns: int, start: int) -> None:
        """Note that an administrator moved the start offset of a group without members."""
        self.begin(start, (), time_ns)
        self.first_stored = None
        self._notify(packet, time_ns, "offset_reset", None, start, start - 1)

    def _settle(
        self, sent_ns: int, time_ns: int, stored: StoredRange
    ) -> Iterator[tuple[str, ShareStep | None, int, int]]:
        """Apply a stored batch. Yield the events that it shows: word, request, first and last offset."""
        known_offsets, is_late = 0, time_ns <= self.locks.forgotten_ns
        for piece in self.records.over(stored.first, stored.last):
            known_offsets += piece.last - piece.first + 1
            states, event, step = settled(piece.value, stored, sent_ns, time_ns, self.leader.releases, is_late=is_late)
            if states is not piece.value:
                self.records.put(piece.first, piece.last, states)
            if event is not None:
                if states[0] not in piece.value:
                    self.last_attempts.give_back(piece.first, piece.last, states)
                yield event, step, piece.first, piece.last
        if known_offsets > stored.last - stored.first or is_late:
            return  # nothing is new, or the new leader may not know the acquisition
        for first, last in self.records.gaps(stored.first, stored.last):
            if self.start is None or last >= self.start:
                self.records.put(first, last, (RecordState(stored.stage, stored.deliveries, None, None, UNEXPLAINED),))

    def lose_sight(self, packet: int, why: str) -> None:
        """Forget the state before that packet."""
        self._begin_anew(why)
        self.start = self.stored = self.first_stored = None
        self._forget_aborted()
        self.persistence = Persistence()
        self.known = Known(packet, because=why)

    def _forget_aborted(self) -> None:
        """Note that the start offset is known, whatever was aborted."""
        self._after_aborted, self._is_beyond = -1, False

    def _forget(self, count: int) -> None:
        """Forget ended records but a few, for repeated acknowledgements.

        `count`: the number of ranges, which is too high.
        """
        done = takewhile(is_done, (piece.value for piece in islice(self.records, count - self.room)))
        many = max(sum(1 for _ in done), count - limits.IN_FLIGHT_RANGES)
        if many > 0:
            self.forgotten = max(self.forgotten, self.records.forget(many))

    def _begin_anew(self, why: str, locked_until_ns: int = 0) -> None:
        self.earlier = self.earlier or (self.records, why)
        self.records = OffsetRanges()
        self.last_attempts, self.window = LastAttempts(), Window()
        self.locks.clear(locked_until_ns)

    # -- time

    def time(self, packet: int, now_ns: int, grace_ns: int = _LATE_TIMER_NS) -> None:
        """Expire the locks that have certainly expired by that time.

        They ended `grace_ns` before: until then an acknowledgement may show that their timer was late.
        """
        for first, last, hold in self.locks.out(now_ns - grace_ns):
            for piece in self.records.over(first, last):
                held = [record for record in piece.value if record.hold is hold and record.stage is ACQUIRED]
                if not held:
                    continue
                back = [after for record in held for after in record.given_back("lock_timeout", None, self.highest)]
                others = [record for record in piece.value if record not in held]
                for part, requests in self._by_open(piece, hold):
                    if requests:  # the broker may have applied the acknowledgement before the lock expired
                        self.records.put(part.first, part.last, (*piece.value, *back))
                        requests[-1].expires(part.first, part.last, hold)
                        continue
                    self.records.put(part.first, part.last, (*others, *back))
                    self.last_attempts.give_back(part.first, part.last, back)
                    if not others:
                        self._notify(packet, hold.late_ns, "lock_timeout", hold.step, part.first, part.last)

    def _by_open(self, piece: Piece, hold: Hold) -> Iterable[tuple[Piece, Sequence[OpenRequest]]]:
        """Split acquired records by the open requests with which their member acknowledges them."""
        requests = [request for request in self.open if hold.is_of(request.step)]
        if not requests:
            return ((piece, ()),)
        parts: OffsetRanges[tuple[OpenRequest, ...]] = OffsetRanges()
        parts.put(piece.first, piece.last, ())
        for request in requests:
            for run in request.runs:
                for first, last, earlier in parts.over(max(run.first, piece.first), min(run.last, piece.last)):
                    parts.put(first, last, (*earlier, request))
        return [(Piece(first, last, piece.value), among) for first, last, among in parts]

    def _note_expired(self, answer: Answer, first: int, last: int, count: int) -> None:
        """Report locks that may have expired before this delivery of the records, and have, as the next count shows."""
        for piece in self.records.over(first, last):
            record, *others = piece.value
            hold = record.hold
            if others or hold is None or record.count != count - 1 or not record.may_run_out(answer.time_ns):
                continue
            for part, requests in self._by_open(piece, hold):
                if not any(_gives_back(request, part.first, part.last) for request in requests):
                    ended_ns = min(hold.late_ns, answer.time_ns)
                    self._notify(answer.packet, ended_ns, "lock_timeout", hold.step, part.first, part.last)

    def _redelivered(self, answer: Answer, ranges: Iterable[AcquiredRange]) -> None:
        """Report expired locks of records that are delivered again before the answer to their acknowledgement.

        This answer overtook the other one. An open release may also be the reason.
        """
        for request in self.open:
            if (expired := request.expired) is None:
                continue
            for acquired in ranges:
                for first, last, hold in expired.over(acquired.first, acquired.last):
                    if not _gives_back(request, first, last):
                        self._notify(answer.packet, hold.late_ns, "lock_timeout", hold.step, first, last)
                    expired.drop(first, last)

    def refuse(self, request: OpenRequest, packet: int) -> None:
        """Note that the acknowledgements were not applied: the locks that have ended meanwhile had expired."""
        for first, last, hold in request.expired or ():
            for piece in self.records.over(first, last):
                left = [record for record in piece.value if record.hold is not hold or record.stage is not ACQUIRED]
                if len(left) == len(piece.value):
                    continue
                for part, others in self._by_open(piece, hold):
                    if others:
                        others[-1].expires(part.first, part.last, hold)
                        continue
                    self.records.put(part.first, part.last, tuple(left))
                    self.last_attempts.give_back(part.first, part.last, left)
                    if all(record.how == "lock_timeout" for record in left):
                        self._notify(packet, hold.late_ns, "lock_timeout", hold.step, part.first, part.last)

    def _locked(self, member_id: str | None, *, new: bool) -> Iterator[Piece]:
        """Yield the records that the member may hold, or may hold since the last call (`new`), each once."""
        done = -1
        for first, last in self.locks.of(member_id, new=new):
            yield from self.records.over(max(first, done + 1), last)
            done = max(done, last)

    # -- the start offset

    def _advance(self) -> None:
        """Move the start offset past ended records.

        If retention moves a broker's start offset past held records, the broker's own stays lower until these are given
        back: seen on 4.3.1.
        """
        if self.start is not None:
            self.start = self.records.passed(self.start, is_done)
            self._after_aborted = self._past_aborted(self.start) if self.aborted else -1
            self._is_beyond = self.may_end_in_aborted and self.end == max(self.start, self._after_aborted)

    def _notify(self, packet: int, time_ns: int, event: str, step: ShareStep | None, first: int, last: int) -> None:
        if self._report is not None:
            self._report(
                Change(self, packet, time_ns, event, None if step is None else step.member_id, first, last, step)
            )


def _within(offsets: tuple[int, int], ranges: Iterable[AcquiredRange]) -> bool:
    return any(range_.first <= offsets[1] and offsets[0] <= range_.last for range_ in ranges)


def _gives_back(request: OpenRequest, first: int, last: int) -> bool:
    """True if the request releases or rejects some of the records."""
    return any(run.type in _GIVES_BACK and run.first <= last and run.last >= first for run in request.runs)
