"""Brokers as witnesses: what is known of records in flight agrees with what their leaders store of them, write by
write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from kshark.analysis import APIS, Analyzer
from kshark.analysis.states.partition.records_in_flight import Piece, StoredRange
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.tables.in_flight import ACQUIRED, AFTER, ARCHIVED, AVAILABLE, RELEASE, TERMINAL
from kshark.capture import open_captures
from kshark.model import PacketBatch
from kshark.pipeline import Options
from tests.shared import CAPTURES, sample_of, shared
from tests.thinning import pages_of

#: Captures in which brokers write, and how often that says something that the capture does not show, by why (see
#: `Witness`).
CLEAN: Final[dict[str, int]] = {}
BUNDLED: Final = {
    "adv-acks": CLEAN,
    "adv-epochs": CLEAN,
    "adv-members": CLEAN,
    "adv-races-4.1.2": {"acquired_unseen": 35},
    "adv-sessions-4.2.1": CLEAN,
    "aimed": {"acquired_unseen": 1},
    "aimed-4.1.2": CLEAN,
    "java-limit": CLEAN,
    "seed-messy": CLEAN,
    "share-java-explicit": CLEAN,
    "share-java-explicit-4.0.0": {"overtaken": 1},
    "share-java-explicit-4.1.2": CLEAN,
    "share-java-implicit-4.2.1": {"overtaken": 2},
    "share-java-renew": CLEAN,
    "share-librdkafka": CLEAN,
    "share-loss": CLEAN,
    "share-restart": CLEAN,
    "tcp-var-base": CLEAN,
    "tcp-var-missed": CLEAN,
}
SHARED: Final = {
    "clients/franz-share": CLEAN,
    "clients/fzst431-churn": CLEAN,
    "clients/fzst431-idle": CLEAN,
    "clients/fzst431-lock": CLEAN,
    "clients/fzst431-topics": CLEAN,
    "kafka-4/admin-tools": CLEAN,
    "kafka-4/groups-share": CLEAN,
    "kafka-4/share-large": CLEAN,
    "kafka-4/tcp-restart": CLEAN,
    "kafka-4/ver-4.1.2": CLEAN,
    "walks/walk-412-1": {"acquired_unseen": 1, "overtaken": 2, "released": 1},
    "walks/walk-wild-1": {"acquired_unseen": 60, "outdated": 2, "overtaken": 5, "released": 3},
}
#: What was composed may wait so long for the write before it.
_QUEUED_NS: Final = 100_000_000


class Witness:
    """Compares each batch of each accepted write with the records that the machine knows at its answer, and that all
    below its start offset may be done with.

    `counts`: agreed (the one state that is known), acknowledged (the state after what waits for its answer), uncertain
    (one of several states), not_seen (nothing is known). What is not as known is one of:

    - overtaken: the records were acquired again while the write was under way.
    - released: the leader released them before the client was told that its session is over.
    - out_of_sight: the same, but nothing that comes later shows the end of that session.
    - acquired_unseen: they were delivered more often than the capture shows, to fetches that nobody answered.
    - outdated: they are done with, and the leader stores what it knew before it read the state anew.

    All else is a contradiction.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.contradictions: list[tuple[int, StoredRange | int, Piece]] = []
        self._released: list[tuple[SharePartition, str | None]] = []

    def write(
        self,
        partition: SharePartition,
        packet: int,
        sent_ns: int,
        time_ns: int,
        start: int,
        stored: Iterable[StoredRange],
    ) -> None:
        partition.time(packet, time_ns)
        for piece in () if partition.start is None else partition.over(partition.start, start - 1, time_ns, time_ns):
            if not _waiting(partition, piece) and all(one.stage not in TERMINAL for one in piece.value):
                self.contradictions.append((packet, start, piece))
        for one in stored:
            self.counts["not_seen"] += len(partition.records.gaps(one.first, one.last))
            for piece in partition.over(one.first, one.last, time_ns, time_ns):
                about = self._compared(partition, one, piece, sent_ns)
                if about is None:
                    self.contradictions.append((packet, one, piece))
                else:
                    self.counts[about] += 1

    def let_go(self, partition: SharePartition, member_id: str | None) -> None:
        self.counts["out_of_sight"] -= self._released.count((partition, member_id))
        self.counts["released"] += self._released.count((partition, member_id))
        self._released = [one for one in self._released if one != (partition, member_id)]

    def _compared(self, partition: SharePartition, stored: StoredRange, piece: Piece, sent_ns: int) -> str | None:
        may = piece.value
        same = [one for one in may if one.stage is stored.stage and one.count in (None, stored.deliveries)]
        waiting = _waiting(partition, piece)
        becomes = {AFTER[kind] for kind in waiting} | ({ARCHIVED} if RELEASE in waiting else set())
        held = may[0]
        if stored.stage in becomes and any(one.count in (None, stored.deliveries) for one in may):
            return "acknowledged"
        if same:
            return "agreed" if len(may) == 1 else "uncertain"
        if all(one.stage in TERMINAL for one in may):
            return "outdated" if partition.start is None or piece.last < partition.start else None
        is_new = held.stage is ACQUIRED and held.by is not None and held.by.end_ns > sent_ns - _QUEUED_NS
        if is_new and stored.deliveries < (held.count or 0):
            return "overtaken"
        if all(one.count is not None and one.count < stored.deliveries for one in may):
            return "acquired_unseen"
        if held.stage is ACQUIRED and held.by is not None and stored.stage in (AVAILABLE, ARCHIVED):
            self._released.append((partition, held.by.member_id))
            return "out_of_sight"
        return None


def _waiting(partition: SharePartition, piece: Piece) -> set[int]:
    """The types of acknowledgements of these records that have no answer yet."""
    return {run.type for run in partition.awaited if run.first <= piece.last and run.last >= piece.first}


def witnessed(capture: Path, monkeypatch: pytest.MonkeyPatch) -> Witness:
    """A capture's, from its first write to its last."""
    witness, write, let_go = Witness(), SharePartition.write, SharePartition.let_go

    def written(
        self: SharePartition, packet: int, sent_ns: int, time_ns: int, start: int, stored: Iterable[StoredRange]
    ) -> None:
        batches = [*stored]
        witness.write(self, packet, sent_ns, time_ns, start, batches)
        write(self, packet, sent_ns, time_ns, start, batches)

    def gone(self: SharePartition, member_id: str | None, *about: int, **more: bool) -> None:
        witness.let_go(self, member_id)
        let_go(self, member_id, *about, **more)

    monkeypatch.setattr(SharePartition, "write", written)
    monkeypatch.setattr(SharePartition, "let_go", gone)
    batches = (item for item in open_captures([capture]) if isinstance(item, PacketBatch))
    analyzer = Analyzer()
    for page in pages_of(batches, Options(records=False, bodies=APIS)):
        analyzer.page(page)
    return witness


def check(name: str, witness: Witness, expected: dict[str, int]) -> None:
    counts = +witness.counts
    known = {about: counts.pop(about, 0) for about in ("agreed", "acknowledged", "uncertain", "not_seen")}
    assert not witness.contradictions, f"{name}: {known}, {dict(counts)}"
    assert known["agreed"] + known["acknowledged"] + known["uncertain"] > 0, name
    assert dict(counts) == expected, f"{name}: {known}"


@pytest.mark.parametrize("name", sample_of(BUNDLED, 8, seed=7))
def test_records_are_in_what_leaders_store(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, witnessed(CAPTURES / f"{name}.pcap", monkeypatch), BUNDLED[name])


@pytest.mark.sweep
@pytest.mark.parametrize("name", sample_of(SHARED, 6, seed=8))
def test_records_are_in_what_leaders_of_more_captures_store(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, witnessed(shared("captures", f"{name}.pcap"), monkeypatch), SHARED[name])
