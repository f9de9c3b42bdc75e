"""What the in-flight machine foretells of the records in a capture of a broker, beside what the broker answered.

Each range that is handed out has to be one that the machine held possible, with that delivery count; so has each result
of acknowledgements. A rule that only looks on is asked at every answer, before the machine learns what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from kshark.analysis import APIS, RULES, Analyzer, Rule
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.calls import AcknowledgementBatch, Partition, ShareStep
from kshark.analysis.facts.releases import agreed
from kshark.analysis.rules.book import RuleBook
from kshark.analysis.rules.rule import NOTES, Check
from kshark.analysis.states.partition.group_records import may_have_acquired
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Hold, Piece, RecordState, runs_of
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.partition.situations import Acknowledging, Acquiring
from kshark.analysis.states.stored.state import StoredSituation
from kshark.analysis.states.tables import IN_FLIGHT, PERSISTER
from kshark.analysis.states.tables.in_flight import ACQUIRED, AVAILABLE, RENEW, TERMINAL
from kshark.api_keys import INITIALIZE_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE
from kshark.capture import open_captures
from kshark.model import PacketBatch
from kshark.pipeline import Options
from tests.thinning import pages_of

TAKEN, INVALID, NOT_HELD = 0, 42, 121
#: These are about the partition, whatever its records are in: unknown, led elsewhere, or its topic is gone.
OF_PARTITIONS = frozenset({3, 6, 74, 100})
#: How well a thing was foretold: nothing else was possible, something else was too, the capture had not told enough, it
#: was impossible.
ALONE, ONE_OF, UNTOLD, SURPRISE = ("nothing else possible", "one of several", "not known", "surprise")
#: 4.1.2 hands out what it has stored as done: behind a hole in the state that it read it goes back to the beginning of
#: a batch. All do where what a former leader knew was stored behind what its successor had stored (apache/kafka#23074).
TAKES_BACK = "the leader goes back behind its start offset"


_STORES = frozenset({INITIALIZE_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE})
#: A group, and a partition of a topic.
Key = tuple[str | None, Partition]


@dataclass
class States:
    """What leaders stored: how far their records reach, and where a start offset went back though no administrator
    moved it."""

    reach: dict[Key, int] = field(default_factory=dict)
    went_back: set[Key] = field(default_factory=set)

    def storing(self, now: StoredSituation) -> None:
        step = now.step
        key = step.call.group_id, step.partition
        if step.call.api_key == INITIALIZE_SHARE_GROUP_STATE:
            self.went_back.discard(key)
        elif step.accepted and step.start_offset is not None:
            if 0 <= step.start_offset < (now.stored.start_offset or 0) and not step.coordinator_behaviour(
                "keeps_highest_start"
            ):
                self.went_back.add(key)
            self.reach[key] = max([self.reach.get(key, -1), *(batch.last for batch in step.batches)])


@dataclass
class Foresight:
    """`handed` counts ranges by how well they were foretold, `results` those of acknowledgements, by error code;
    `surprises` say more."""

    handed: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)
    #: Groups that let their members renew locks, by what they were answered.
    renewing: set[str | None] = field(default_factory=set)
    #: Fetches of each group at each leader that may have acquired records and handed out none.
    lost: dict[tuple[str | None, Broker], Iterable[ShareStep]] = field(default_factory=dict)
    states: States = field(default_factory=States)

    def acquiring(self, now: Acquiring) -> None:
        """An answer hands records out."""
        self.lost[now.step.group_id, now.share_partition.leader] = now.lost_fetches
        for handed in now.ranges:
            for piece in _pieces(now, handed):
                if _goes_back(now, piece, self.states):
                    self.handed[TAKES_BACK] += 1
                    continue
                possible = _counts(now, piece, self.states)
                self.handed[_how_well(handed.number, possible)] += 1
                if possible is not None and handed.number not in possible:
                    self._surprised(now.step, f"delivery {handed.number} of", piece, possible)

    def acknowledging(self, now: Acknowledging) -> None:
        """An answer says what became of acknowledgements."""
        if now.error is None:
            return
        lost = self.lost.get((now.step.group_id, now.share_partition.leader), ())
        may_hold = any(one.member_id == now.step.member_id for one in lost)
        possible, renews = _results(now, may_hold), any(run.type == RENEW for run in now.runs)
        if possible is not None and renews and now.step.group_id not in self.renewing:
            possible |= {NOT_HELD}
        self.results[f"{now.error}, {_how_well(now.error, possible)}"] += 1
        if possible is not None and now.error not in possible:
            partition = now.share_partition
            for piece in _met(now) or [Piece(*now.extent, ())]:
                self._surprised(now.step, f"{now.error} for {now.runs} of", piece, possible)
            self.surprises[-1] += f"; records from {partition.start} to {partition.end}"
        if now.error == TAKEN and renews:
            self.renewing.add(now.step.group_id)

    def _surprised(self, step: ShareStep, what: str, piece: Piece, possible: Iterable[int]) -> None:
        may = (
            ", ".join(f"{one.stage} {one.count} {one.how} {_holder(one.hold)}" for one in piece.value)
            or "nothing known"
        )
        self.surprises.append(
            f"{step.here} of {step.connection.client} ({step.packets}), group {step.group_id}, member "
            f"{step.member_id}: {what} "
            f"{piece.first}-{piece.last}, possible was {sorted(possible)}: {may}"
        )


def foresight(capture: Path) -> Foresight:
    """Of a capture, from its first packet to its last."""
    found = Foresight()
    checks = (Check(found.acquiring, about=Acquiring), Check(found.acknowledging, about=Acknowledging))
    onlooker = Rule(number=None, code="LOOKS_ON", text="", source="", verdicts=NOTES, machine=IN_FLIGHT, checks=checks)
    stores = structs.replace(
        onlooker, code="LOOKS_ON_STATES", machine=PERSISTER, checks=(Check(found.states.storing, apis=_STORES),)
    )
    analyzer = Analyzer(exact=True, book=RuleBook((*RULES, onlooker, stores)))
    batches = (item for item in open_captures([capture]) if isinstance(item, PacketBatch))
    for page in pages_of(batches, Options(records=False, bodies=APIS)):
        analyzer.page(page)
    return found


# -- what is handed out


def _key(now: Acquiring) -> Key:
    return now.step.group_id, now.share_partition.partition


def _goes_back(now: Acquiring, piece: Piece, states: States) -> bool:
    """Whether the leader contradicts itself, as 4.1 is known to, and all where a start offset went back."""
    is_known = agreed(now.session.releases, "release_uncounts") is True or _key(now) in states.went_back
    is_done = all(one.stage in TERMINAL for one in piece.value)
    start = max(_stored_start(now.share_partition) or 0, now.share_partition.start or 0)
    return is_known and is_done and piece.last < start


def _pieces(now: Acquiring, handed: AcquiredRange) -> Iterator[Piece]:
    """All offsets of a range, with what is known of them."""
    at, end = handed.first, now.share_partition.end
    for piece in handed.pieces:
        yield from _unknown(at, piece.first - 1, end)
        yield piece
        at = piece.last + 1
    yield from _unknown(at, handed.last, end)


def _unknown(first: int, last: int, end: int | None) -> Iterator[Piece]:
    """Offsets of which nothing is known, those behind all that were acquired apart."""
    edges = [first, end, last + 1] if end is not None and first < end <= last else [first, last + 1]
    for begin, behind in pairwise(edges):
        if begin < behind:
            yield Piece(begin, behind - 1, ())


def _counts(now: Acquiring, piece: Piece, states: States) -> frozenset[int] | None:
    """The numbers that a delivery of these records may have; None: the capture has not told enough."""
    partition = now.share_partition
    if not piece.value:
        is_new = partition.end is not None and piece.first >= partition.end
        is_done = partition.start is not None and piece.last < partition.start
        counts = {1} if is_new else set()
        is_stored = is_new and piece.first <= states.reach.get(
            _key(now), -1
        )  # by whom led before, or of a fetch that was told nothing
        if is_stored or not (is_new or is_done):
            return None
    elif any(one.count is None for one in piece.value):
        return None
    else:
        asked = any(
            run.first <= piece.last and run.last >= piece.first for request in partition.open for run in request.runs
        )
        stages = {AVAILABLE, ACQUIRED} if asked else {AVAILABLE}  # what is being released may be handed out
        counts = {(one.count or 0) + 1 for one in piece.value if one.stage in stages}
        if (
            partition.stored is not None and partition.stored[1].packet > now.step.packet
        ):  # acquired, let go and stored before the answer
            counts |= {one.count or 0 for one in piece.value if one.how == "stored"}
    holds = [(one.hold.step.end, one.hold.step.end_ns) for one in piece.value if one.hold is not None]
    since = max(holds, default=(partition.known.since, 0))
    lost = sum(
        may_have_acquired(one, *since) and one.packet < now.answer.packet and one is not now.step
        for one in now.lost_fetches
    )
    least = (
        0 if agreed(now.session.releases, "release_uncounts") is False else -lost
    )  # 4.1 takes back deliveries that nobody saw
    return frozenset(max(1, count + more) for count in counts for more in range(least, lost + 1))


# -- what becomes of acknowledgements


def _results(now: Acknowledging, may_hold: bool) -> frozenset[int] | None:
    """The errors that their partition may be answered; None: the capture has not told enough. Kafka:
    SharePartition.acknowledge.

    `may_hold`: the member may have acquired records without being told.
    """
    partition = now.share_partition
    if now.error in OF_PARTITIONS:
        return None
    if now.fault is not None:
        return frozenset({INVALID})
    if not partition.acquired_here:
        return None
    possible: set[int] = set()
    for pieces in (_met(now), _known(now)):
        before = -1
        for batch in now.batches:
            if before == batch.first >= (partition.start or 0):  # the same once more
                results: set[int] | None = {NOT_HELD, TAKEN} if _may_be_passed(now, batch) else {NOT_HELD}
            else:
                results = _of_batch(now, batch, pieces, may_hold)
            if results is None:
                return None
            before = batch.last
            possible |= results - {TAKEN}
            if TAKEN not in results:
                break
        else:
            possible.add(TAKEN)
    return frozenset(possible)


def _met(now: Acknowledging) -> list[Piece]:
    """What the request met: the locks of some may have run out before it was its turn."""
    step = now.step
    return [now.share_partition.between(piece, step.time_ns, step.end_ns) for piece in now.pieces]


def _known(now: Acknowledging) -> list[Piece]:
    """What is known at the answer."""
    first, last = now.extent
    return now.share_partition.over(first, last, now.step.time_ns, now.step.end_ns)


def _of_batch(
    now: Acknowledging, batch: AcknowledgementBatch, pieces: Sequence[Piece], may_hold: bool
) -> set[int] | None:
    """What a broker may say of one batch; all of them are taken, or none."""
    start, end = now.share_partition.start, now.share_partition.end
    if start is None or end is None:
        return None
    if batch.last < start:  # all that is done with is passed over, when the broker gets to move its start offset
        stored = _stored_start(now.share_partition)
        had_passed = not any(_within(pieces, batch.first, batch.last)) and (stored is None or batch.last < stored)
        return {TAKEN} if had_passed else {TAKEN, NOT_HELD}
    if batch.last >= end:
        return {INVALID, NOT_HELD}
    first = max(batch.first, start)
    met = [one for run in runs_of([batch]) for one in _within(pieces, max(run.first, first), run.last)]
    if sum(piece.size for piece in met) <= batch.last - first:
        return None
    mine = [[_is_held_by(one, now.step.member_id) for one in piece.value] for piece in met]
    free = [may_hold and any(one.stage is AVAILABLE for one in piece.value) for piece in met]
    may = _may_be_passed(now, batch) or all(any(some) or other for some, other in zip(mine, free, strict=True))
    must = all(map(all, mine))
    # what was only stored, by a leader that had not read it anew yet, lies past all that it knows of now
    refused = {NOT_HELD, INVALID} if any(one.how == "stored" for one in met[-1].value) else {NOT_HELD}
    return {TAKEN} if must else {TAKEN, *refused} if may else refused


def _may_be_passed(now: Acknowledging, batch: AcknowledgementBatch) -> bool:
    """Whether all up to its end may be done with: then the start offset may be behind it."""
    start = now.share_partition.start
    if start is None:
        return False
    below = now.share_partition.over(start, batch.last, now.step.time_ns, now.step.end_ns)
    return sum(one.size for one in below) > batch.last - start and all(
        any(r.stage in TERMINAL for r in one.value) for one in below
    )


def _stored_start(partition: SharePartition) -> int | None:
    """The start offset that its leader read or stored last, by its own word; None where the capture has none."""
    return None if partition.stored is None else partition.stored[0]


def _is_held_by(record: RecordState, member_id: str | None) -> bool:
    """Whether that member has it acquired, were it only known because it renewed the lock."""
    renewed = (
        record.stage is ACQUIRED and record.hold is None and record.by is not None and record.by.member_id == member_id
    )
    return renewed or record.is_held_by(member_id)


def _within(pieces: Iterable[Piece], first: int, last: int) -> Iterator[Piece]:
    """What of these lies between two offsets."""
    for piece in pieces:
        if piece.first <= last and piece.last >= first:
            yield Piece(max(piece.first, first), min(piece.last, last), piece.value)


# -- words


def _how_well(answer: int, possible: frozenset[int] | None) -> str:
    if possible is None:
        return UNTOLD
    return SURPRISE if answer not in possible else ALONE if len(possible) == 1 else ONE_OF


def _holder(hold: Hold | None) -> str:
    return "" if hold is None else f"by {hold.step.member_id} with {hold.step.packets}"
