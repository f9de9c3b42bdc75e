"""Large captures by ranges, shares and buckets: the findings, names and counts that one task has of the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshark.errors import UnreadableInput, Vanished
from kshark.pipeline import JUDGED, Options
from tests.shared import CAPTURES, shared

pytestmark = pytest.mark.spark

OPTIONS = JUDGED
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
#: Of each kind some; those of all captures as one are all.
SOME = sorted(Random(2).sample(NAMES, 12))
OTHERS = [name for name in NAMES if name not in SOME]


def path_of(name: str) -> str:
    return str(CAPTURES / name)


def in_parts(
    spark: Any, captures: list[list[str]], range_bytes: int, buckets: int, options: Options = OPTIONS
) -> list[Any]:
    """Of captures of any size, as if they were large."""
    from kshark_spark.captures import checked
    from kshark_spark.plan import Sizes

    return told(
        checked(
            spark,
            captures,
            options,
            Sizes(whole=-1, dearer=0, range=range_bytes, share=1 << 20, buckets=buckets),
            coverage=True,
        )
    )


def whole(spark: Any, captures: list[list[str]], options: Options = OPTIONS) -> list[Any]:
    from kshark_spark.captures import checked

    return told(checked(spark, captures, options, coverage=True))


def told(found: list[Any]) -> list[Any]:
    """Errors do not equal each other, their words do."""
    return [repr(one) if isinstance(one, UnreadableInput) else one for one in found]


def unplaced(found: list[Any]) -> list[Any]:
    """Without file and frame: of files that overlap, and were shared out, nobody knows them."""
    for witness in (
        one
        for checked in found
        if not isinstance(checked, str)
        for finding in checked.findings
        for one in finding.witness
    ):
        witness.places = []
    return found


@pytest.mark.parametrize("names", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"])
def test_every_capture_of_its_own(spark: Any, names: list[str]) -> None:
    captures = [[path_of(name)] for name in names]
    assert dict(zip(names, in_parts(spark, captures, 64 << 10, 2), strict=True)) == dict(
        zip(names, whole(spark, captures), strict=True)
    )


def test_a_connection_with_most_of_the_bytes_is_named(spark: Any) -> None:
    """No number of tasks makes its capture faster."""
    one, other = in_parts(spark, [[path_of("share-locks.pcap")], [path_of("share-restart.pcap")]], 64 << 10, 2)
    giant = (
        "one connection (127.0.0.1:56810 to 127.0.0.1:43621) has 26.1 kB of 43.2 kB: one task read it while others "
        "had little"
    )
    assert (one.giant, other.giant) == (giant, None)


def test_all_captures_as_one(spark: Any) -> None:
    captures = [[path_of(name) for name in NAMES]]
    expected = unplaced(whole(spark, captures))
    for buckets in (1, 16):
        (one,) = in_parts(spark, captures, 300 << 10, buckets)
        assert one.observed.exchanges > 9_000
        assert unplaced([one]) == expected


def test_every_share_knows_the_secrets_of_tls(spark: Any) -> None:
    """Those beside a capture, and those that one of its ranges brings."""
    beside, inside = (str(shared("captures", "kafka-4", f"security-tls.{kind}")) for kind in ("pcap", "pcapng"))
    keyed = replace(OPTIONS, tls_keys=shared("captures", "kafka-4", "security-tls.keys").read_bytes())
    (one,) = in_parts(spark, [[beside]], 64 << 10, 2, keyed)
    assert one.observed.exchanges == 87
    assert [one] == whole(spark, [[beside]], keyed)
    (other,) = in_parts(spark, [[inside]], 64 << 10, 2)
    assert other.observed.exchanges == 87
    assert [other] == whole(spark, [[inside]])


def test_a_file_that_ends_early_is_read_as_far_as_it_goes(spark: Any, tmp_path: Path) -> None:
    """Ranges behind a length that cannot be are none: the file is read from its beginning to find that out."""
    good = (CAPTURES / "share-restart.pcap").read_bytes()
    cut, broken = tmp_path / "cut.pcap", tmp_path / "broken.pcap"
    cut.write_bytes(good[:200_003])
    broken.write_bytes(good[:150_000] + b"\xff" * 40 + good[150_040:])
    captures = [[str(cut)], [str(broken)], [str(broken), str(cut)]]
    assert unplaced(in_parts(spark, captures, 32 << 10, 3)) == unplaced(whole(spark, captures))


def test_a_file_that_is_gone_does_not_take_the_others_with_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read, and between the search for its ranges and their reading."""
    import kshark_spark.large

    here, gone = path_of("adv-epochs.pcap"), tmp_path / "gone.pcap"
    captures = [[here], [str(gone)]]
    (expected,) = whole(spark, [[here]])
    fault = repr(Vanished(f"{gone}: no such file or directory"))
    assert whole(spark, captures) == in_parts(spark, captures, 64 << 10, 2) == [expected, fault]

    gone.write_bytes(Path(here).read_bytes())
    planned = kshark_spark.large.planned

    def and_gone(*given: Any) -> Any:
        plans = planned(*given)
        gone.unlink()
        return plans

    monkeypatch.setattr(kshark_spark.large, "planned", and_gone)
    assert in_parts(spark, captures, 64 << 10, 2) == [expected, fault]
