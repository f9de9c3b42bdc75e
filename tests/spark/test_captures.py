"""Captures checked by Spark's tasks, one each: the findings, names, notes and counts that one process has."""

from __future__ import annotations

import os
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
SOME = sorted(Random(2).sample(NAMES, 6))
OTHERS = [name for name in NAMES if name not in SOME]


def path_of(name: str) -> str:
    return str(CAPTURES / name)


def by_spark(spark: Any, captures: list[list[str]], options: Options = OPTIONS) -> list[Any]:
    from kshark_spark.captures import checked

    named = [(files[0], files) for files in captures]
    return comparable([*checked(spark, named, options, 2, coverage=True)])


def by_one_process(captures: list[list[str]], options: Options = OPTIONS) -> list[Any]:
    from kshark_spark.captures import whole

    def found(files: list[str]) -> Any:
        try:
            return whole(files, options, coverage=True)
        except UnreadableInput as error:
            return error

    return comparable([found(files) for files in captures])


def comparable(found: list[Any]) -> list[Any]:
    """Errors do not equal each other, their words do."""
    return [repr(one) if isinstance(one, UnreadableInput) else one for one in found]


@pytest.mark.parametrize("names", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"])
def test_every_capture_is_checked_as_by_one_process(spark: Any, names: list[str]) -> None:
    captures = [[path_of(name)] for name in names]
    assert by_spark(spark, captures) == by_one_process(captures)


def test_all_captures_as_one(spark: Any) -> None:
    captures = [[path_of(name) for name in NAMES]]
    (one,) = by_spark(spark, captures)
    assert one.observed.exchanges > 9_000
    assert [one] == by_one_process(captures)


def test_the_secrets_of_tls_are_sent_to_the_task(spark: Any) -> None:
    capture = [[str(shared("captures", "kafka-4", "security-tls.pcap"))]]
    keyed = replace(OPTIONS, tls_keys=shared("captures", "kafka-4", "security-tls.keys").read_bytes())
    (one,) = by_spark(spark, capture, keyed)
    assert one.observed.exchanges == 87
    assert [one] == by_one_process(capture, keyed)


def test_a_file_that_is_gone_does_not_take_the_others_with_it(spark: Any, tmp_path: Path) -> None:
    here, gone = path_of("adv-epochs.pcap"), tmp_path / "gone.pcap"
    fault = repr(Vanished(f"{gone}: no such file or directory"))
    assert by_spark(spark, [[here], [str(gone)]]) == [*by_one_process([[here]]), fault]


def test_a_task_that_fails_is_the_fault_of_its_capture(spark: Any, tmp_path: Path) -> None:
    """By a bug, or because its process is killed, every time; the others are read."""
    from kshark_spark.tasks import results

    def work(capture: tuple[str, Any]) -> str:
        if capture[0] == "bug":
            raise ValueError("no such state")
        if capture[0] == "killer":
            os._exit(137)
        return capture[0].upper()

    names = ["a", "bug", "b", "c", "killer", "d"]
    a, bug, b, c, killer, d = results(spark, [(name, []) for name in names], work, 2, "try")
    assert [a, b, c, d] == ["A", "B", "C", "D"]
    assert (bug.code, killer.code) == ("failed", "worker_lost")
    assert str(bug).startswith("bug: a bug in kshark, at test_captures.py:")
    assert str(killer) == "killer: the process that read it was killed (out of memory, or by a crash)"


def test_tasks_have_about_the_same_bytes_and_the_largest_begin_first() -> None:
    from kshark_spark.tasks import TASK_BYTES, spread

    dice = Random(1)
    sizes = [int(dice.paretovariate(1.2) * 1000) for _ in range(2000)]
    for cores in (1, 2, 16):
        tasks = spread(sizes, cores)
        assert sorted(item for task in tasks for item in task) == [*range(2000)]
        filled = [sum(sizes[item] for item in task) for task in tasks]
        assert len(tasks) == 4 * cores
        assert max(filled) <= max(max(sizes), 1.34 * sum(sizes) / len(tasks))
    assert spread([], 4) == [[]]
    assert spread([10, 30, 20], 8) == [[1], [2], [0]]
    assert len(spread([TASK_BYTES // 2] * 1000, 2)) == 500, "enough tasks for dynamic allocation to add executors"
