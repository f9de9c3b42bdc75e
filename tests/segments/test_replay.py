"""State by the log: snapshots, updates, tombstones, and records that contradict the ones before."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

from kshark.codec import compile_writer
from kshark.records import Record
from kshark.records.writer import write_batch
from kshark.registry import Registry
from kshark.segments import Segment, SegmentBatch, ShareReplay, ShareState
from kshark_dissectors.embedded import share_group_state as share
from tests.shared import CAPTURES

TOPIC = "Pcn_1qfSTk6gEwyL2_83tw"
WHERE = {"group_id": "mailers", "topic_id": TOPIC, "partition": 0}


def key(kind: int) -> bytes:
    layout = share.SHARE_SNAPSHOT_KEY if kind == 0 else share.SHARE_UPDATE_KEY
    return pack(">h", kind) + compile_writer(layout, 0)(WHERE)


def batches(*ranges: tuple[int, int, int, int]) -> list[dict[str, int]]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return [dict(zip(names, kept, strict=True)) for kept in ranges]


def snapshot(
    epoch: int, start: int = 0, *ranges: tuple[int, int, int, int], state_epoch: int = 1
) -> tuple[bytes, bytes]:
    value: dict[str, Any] = {
        "snapshot_epoch": epoch, "state_epoch": state_epoch, "leader_epoch": 2, "start_offset": start,
        "create_timestamp": 1, "write_timestamp": 1, "state_batches": batches(*ranges),
    }  # fmt: skip
    return key(0), pack(">h", 0) + compile_writer(share.SHARE_SNAPSHOT_VALUE, 0)(value)


def update(epoch: int, start: int, *ranges: tuple[int, int, int, int], leader_epoch: int = 2) -> tuple[bytes, bytes]:
    value = {
        "snapshot_epoch": epoch, "leader_epoch": leader_epoch, "start_offset": start, "state_batches": batches(*ranges)
    }  # fmt: skip
    return key(1), pack(">h", 0) + compile_writer(share.SHARE_UPDATE_VALUE, 0)(value)


TOMBSTONE = (key(0), None)


def replayed(folder: Path, *records: tuple[bytes, bytes | None], at: int = 0, skip: int | None = None):  # type: ignore[no-untyped-def]
    """Return the state of the share partition, and the weirds of each batch; `skip`: leave out that record."""
    path = folder / "__share_group_state-0" / f"{at:020}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        b"".join(
            write_batch([Record(at + index, 1_000, *record, ())], base_offset=at + index)
            for index, record in enumerate(records)
            if index != skip
        )
    )
    replay, weirds = ShareReplay(), []
    for page in Segment(str(path), Registry()):
        for item in page:
            assert isinstance(item, SegmentBatch)
            replay.feed(item)
            weirds += item.weird if isinstance(item.weird, list) else []
    (state,) = replay.states()
    return state, weirds


def test_updates_change_the_snapshot_before_them(tmp_path: Path) -> None:
    state, weirds = replayed(
        tmp_path, snapshot(3, 0, (0, 9, 0, 1)), update(3, -1, (2, 4, 2, 1)), update(3, 2, (5, 9, 0, 2), (5, 5, 0, 1))
    )
    assert weirds == []
    assert (state.start_offset, state.snapshot_epoch, state.updates) == (2, 3, 2)
    assert state.batches == [(2, 4, 2, 1), (5, 9, 0, 2)]


def test_a_snapshot_replaces_everything(tmp_path: Path) -> None:
    state, weirds = replayed(tmp_path, snapshot(3, 0, (0, 9, 0, 1)), update(3, 5), snapshot(4, 7, (8, 8, 0, 3)))
    assert (weirds, state.start_offset, state.batches, state.updates) == ([], 7, [(8, 8, 0, 3)], 0)


def test_a_tombstone_ends_the_state_and_a_new_one_begins_at_any_epoch(tmp_path: Path) -> None:
    state, weirds = replayed(tmp_path, snapshot(3), TOMBSTONE)
    assert (weirds, state.deleted, state.start_offset, state.batches) == ([], True, None, [])
    state, weirds = replayed(tmp_path, snapshot(3), TOMBSTONE, snapshot(0, -1))
    assert (weirds, state.deleted, state.snapshot_epoch) == ([], False, 0)


def test_an_update_of_an_older_snapshot_is_named_and_changes_nothing(tmp_path: Path) -> None:
    state, weirds = replayed(tmp_path, snapshot(3), snapshot(4, 5), update(3, 9))
    assert (weirds, state.start_offset) == (["SNAPSHOT_EPOCH_OLD"], 5)


def test_a_state_that_begins_again_without_a_tombstone_is_named(tmp_path: Path) -> None:
    assert replayed(tmp_path, snapshot(3), snapshot(0, -1))[1] == ["TOMBSTONE_MISSING"]


def test_nothing_is_named_where_offsets_of_the_log_are_missing(tmp_path: Path) -> None:
    assert replayed(tmp_path, snapshot(3), TOMBSTONE, snapshot(0, -1), skip=1)[1] == []
    assert replayed(tmp_path, snapshot(3), snapshot(4), update(4, 9), skip=1)[1] == []


def test_nothing_is_named_where_the_log_begins_again(tmp_path: Path) -> None:
    """The same segment of two replicas, for example."""
    replayed(tmp_path, snapshot(3), update(3, 5))
    path = tmp_path / "__share_group_state-0" / f"{0:020}.log"
    path.write_bytes(2 * path.read_bytes())
    replay, items = ShareReplay(), [item for page in Segment(str(path), Registry()) for item in page]
    for item in items:
        assert isinstance(item, SegmentBatch)
        replay.feed(item)
        assert not isinstance(item.weird, list)


def test_nothing_is_named_after_a_batch_that_is_damaged(tmp_path: Path) -> None:
    replayed(tmp_path, snapshot(3), TOMBSTONE, snapshot(0, -1))
    path = tmp_path / "__share_group_state-0" / f"{0:020}.log"
    data, size = bytearray(path.read_bytes()), len(write_batch([Record(0, 1_000, *snapshot(3), ())]))
    data[size + 70] ^= 0xFF  # in the tombstone's batch
    path.write_bytes(data)
    replay, weirds = ShareReplay(), set[str]()
    for page in Segment(str(path), Registry()):
        for item in page:
            assert isinstance(item, SegmentBatch)
            replay.feed(item)
            weirds.update(item.weird if isinstance(item.weird, list) else [])
    assert "BATCH_CRC" in weirds
    assert "TOMBSTONE_MISSING" not in weirds


def test_updates_whose_snapshot_is_in_an_earlier_segment(tmp_path: Path) -> None:
    state, weirds = replayed(tmp_path, update(3, 9, (9, 9, 2, 1)), at=70)
    assert (weirds, state.snapshot_at, state.start_offset, state.state_epoch) == ([], None, 9, None)


def test_the_state_of_a_real_log_is_what_the_broker_said() -> None:
    """kafka-share-groups --describe --offsets, when the segment was copied: billing 40, mailers 34."""
    replay = ShareReplay()
    path = CAPTURES / "segments" / "__share_group_state-0" / "00000000000000000000.log"
    for page in Segment(str(path), Registry()):
        for item in page:
            assert isinstance(item, SegmentBatch)
            replay.feed(item)
    states: list[ShareState] = [*replay.states()]
    assert [(state.group_id, state.partition, state.start_offset) for state in states] == [
        ("billing", 1, 40),
        ("mailers", 0, 34),
    ]
    assert states[1].batches == [(34, 34, 2, 5), (35, 49, 0, 4), (50, 59, 0, 2)]
