"""Which captures many tasks read: those that end earlier so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kshark_spark.plan import Sizes, are_split

MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "cores", "shared_out"),
    [
        ([5000], 2, [False]),
        ([5000], 3, [True]),
        ([60], 100, [False]),
        ([1000] * 8, 4, [False] * 8),
        ([1000, 1000], 16, [True, True]),
        ([5000, 70, *[1] * 500], 8, [True, False, *[False] * 500]),
    ],
)
def test_a_capture_is_shared_out_where_its_task_would_be_the_last_to_end(
    tmp_path: Path, sizes: Sequence[int], cores: int, shared_out: Sequence[bool]
) -> None:
    captures = []
    for number, size in enumerate(sizes):
        path = tmp_path / f"{number}.pcap"
        with path.open("wb") as file:
            file.truncate(size * MB)
        captures.append([str(path)])
    assert are_split(captures, cores, Sizes()) == shared_out
