"""The fast path and the exact one say the same of every packet, whatever happened to the capture and wherever batches
end."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType

import pytest

from kshark.pipeline import Options
from tests.packets import Packet, batch
from tests.property.event_values import event_values
from tests.property.mangled import MUTATIONS, anything, batches_of, packets_of
from tests.shared import CAPTURES, SHARED_CAPTURES, every, sample_of

BUNDLED = sorted(path for path in CAPTURES.glob("*.pcap*"))
EVERYTHING = {**MUTATIONS, "anything": anything}
#: The fast paths: how their function's file ends, and its name. Compiled readers have made-up files.
FAST = (
    ("kshark/link/columns.py", "ordinary"),
    ("kshark/reassembly/fast_path.py", "FastPath.stretches"),
    ("<FetchResponse version 16>", "read"),
    ("kshark/records/columns.py", "Columns.read"),
)
#: What a consumer may ask for.
ASKED = (
    Options(),
    Options(embedded=True),
    Options(payload=False),
    Options(records=False),
    Options(bodies=frozenset((0, 1, 78))),
    Options(kafka_ports=frozenset((9092, 20092))),
)
#: Packets of a capture that the quick test takes, and captures it takes with each mutation.
WINDOW = 300
SAMPLE = 1


def window(packets: list[Packet], random: Random, size: int) -> list[Packet]:
    at = random.randrange(max(1, len(packets) - size))
    return packets[at : at + size]


def assert_both_paths_agree(packets: list[Packet], random: Random) -> None:
    batches, options = batches_of(packets, random), random.choice(ASKED)
    exactly = event_values(batches, replace(options, exact=True))
    assert event_values(batches, options) == exactly
    assert event_values(batches, options, interpreted=random.choice((1, 2, 5, 1000))) == exactly
    assert event_values([batch(packets)], options) == exactly


@pytest.mark.parametrize("exact", [False, True])
def test_the_exact_path_is_another_one(exact: bool) -> None:
    packets = packets_of(CAPTURES / "small-zstd.pcap")
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        event_values(batches_of(packets, Random(1)), Options(exact=exact))
    finally:
        sys.setprofile(None)
    taken = [path for path in FAST if any(file.endswith(path[0]) and name == path[1] for file, name in called)]
    assert taken == ([] if exact else list(FAST))


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("capture", sample_of(BUNDLED, 12, seed=3), ids=lambda path: path.name)
def test_of_captures_as_they_are(capture: Path) -> None:
    random = Random(capture.name)
    assert_both_paths_agree(window(packets_of(capture), random, 2 * WINDOW), random)


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("name", EVERYTHING)
def test_of_captures_with(name: str) -> None:
    random = Random(name)
    for capture in random.sample(BUNDLED, SAMPLE):
        assert_both_paths_agree(EVERYTHING[name](window(packets_of(capture), random, WINDOW), random), random)


@pytest.mark.slow
@pytest.mark.parametrize("capture", every(SHARED_CAPTURES), ids=lambda path: path.name)
def test_of_every_capture_and_every_mutation(capture: Path) -> None:
    packets = packets_of(capture)
    assert_both_paths_agree(packets, Random(capture.name))
    for name, mutation in EVERYTHING.items():
        random = Random(f"{capture.name} {name}")
        for _ in range(3):
            assert_both_paths_agree(mutation(window(packets, random, 1000), random), random)
