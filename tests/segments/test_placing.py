"""The partition of __share_group_state for each key, with keys of real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark.registry import Registry
from kshark.segments import Segment, SegmentBatch, ShareReplay
from kshark.segments.placing import Placing, key_hash
from tests.shared import CAPTURES


@pytest.mark.parametrize(
    "key", [("", "", 0), ("g", "Pcn_1qfSTk6gEwyL2_83tw", 0), ("gäß😀", "", 12), ("a" * 50, "b", 7)]
)
def test_the_hash_is_javas(key: tuple[str, str, int]) -> None:
    text, expected = "{}:{}:{}".format(*key), 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        expected = (31 * expected + int.from_bytes(units[at : at + 2])) % 2**32
    expected = abs(expected - 2**32) if expected >= 2**31 else expected
    assert key_hash(*key) == (0 if expected == 2**31 else expected)


def test_keys_fit_while_one_number_of_partitions_explains_them() -> None:
    placing = Placing()
    assert all(placing.fits(number, number % 6) for number in (601, 77, 6_005, 123_456, 9))
    assert not placing.fits(602, 5)
    assert placing.fits(603, 3)


def test_real_segments_fit_and_a_segment_under_another_name_does_not(tmp_path: Path) -> None:
    folder = CAPTURES / "segments" / "beside"

    def weirds(*names: tuple[str, str]) -> list[str]:
        replay, found = ShareReplay(), []
        for source, name in names:
            path = tmp_path / name / "00000000000000000000.log"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes((folder / source / "00000000000000000000.log").read_bytes())
            for page in Segment(str(path), Registry()):
                for item in page:
                    if isinstance(item, SegmentBatch):
                        replay.feed(item)
                        found += item.weird if isinstance(item.weird, list) else []
        return found

    first, second = "__share_group_state-0", "__share_group_state-1"
    assert weirds((first, first), (second, second)) == []
    assert "STATE_PARTITION_WRONG" in weirds((first, first), (second, "__share_group_state-5"))
