"""--since and --until."""

from __future__ import annotations

import pytest

from kshark.cli.period import Period, time_of
from kshark.errors import UsageError
from tests.cli.command import Run
from tests.packets import Packet, batch
from tests.shared import CAPTURES

#: 2026-11-21 12:03:07.412345678 UTC.
START = 1_795_262_587_412_345_678
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("+10s", START + 10 * SECOND),
        ("+1.5", START + 1_500_000_000),
        ("+250ms", START + 250_000_000),
        ("+2m", START + 120 * SECOND),
        ("+1h", START + 3600 * SECOND),
        ("12:03:08", START - 412_345_678 + SECOND),
        ("12:03:08.000000001", START - 412_345_678 + SECOND + 1),
        ("12:04", START - 7_412_345_678 + 60 * SECOND),
        ("2026-11-21T12:03:08Z", START - 412_345_678 + SECOND),
        ("2026-11-21T13:03:08+01:00", START - 412_345_678 + SECOND),
        ("2026-11-21 12:03:08.5", START - 412_345_678 + SECOND + 500_000_000),
        ("1795262588.000000001", START - 412_345_678 + SECOND + 1),
    ],
)
def test_a_time_may_be_told_in_many_ways(text: str, ns: int) -> None:
    assert time_of(text, START) == ns


@pytest.mark.parametrize("text", ["soon", "10s", "+10y", "25:00", "12:61", "", "2026-13-01"])
def test_what_is_no_time_is_refused_at_once(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write"):
        Period(text, None)


def numbers(since: str | None, until: str | None, seconds: list[float]) -> list[int]:
    """Packets that come through, of a capture with packets at these seconds after its start."""
    period = Period(since, until)
    packets = [Packet(START + int(second * SECOND), b"x", 1) for second in seconds]
    clipped = [period.clip(batch([packet], number)) for number, packet in enumerate(packets, 1)]
    return [int(part.number[0]) for part in clipped if part is not None]


def test_packets_keep_their_numbers() -> None:
    assert numbers("+1s", "+3s", [0, 0.5, 1, 2, 2.999, 3, 4]) == [1, 2, 3, 4, 5]
    assert numbers(None, "+1s", [0, 0.5, 1]) == [1, 2]
    assert numbers(None, None, [0, -5]) == [1, 2]


def test_a_time_of_day_behind_midnight_is_the_next_day() -> None:
    assert numbers(None, "00:10", [0, 40_000, 90_000]) == [1, 2]
    assert numbers("23:59", "00:10", [0, 43_100, 43_700]) == [1, 2]
    night = Period("00:05", "00:10")
    night.clip(batch([Packet(START, b"x", 1)]))
    assert not night.shows(START + 43_000 * SECOND)
    assert night.shows(START + 43_500 * SECOND)


def test_one_batch_is_cut_inside() -> None:
    whole = batch([Packet(START + n * SECOND, bytes([n] * 3), 3) for n in range(5)])
    period = Period("+1s", "+3s")
    part = period.clip(whole)
    assert part is not None
    assert [part.buffer[o] for o in part.offset] == [0, 1, 2]
    assert [period.shows(START + n * SECOND) for n in range(3)] == [False, True, True]


def test_reading_ends_well_behind_the_end() -> None:
    period = Period(None, "+1s")
    period.clip(batch([Packet(START, b"x", 1)]))
    period.clip(batch([Packet(START + 5 * SECOND, b"x", 1)]))
    assert not period.over
    period.clip(batch([Packet(START + 12 * SECOND, b"x", 1)]))
    assert period.over


def test_findings_of_a_period_are_those_of_the_whole_capture(kshark: Run) -> None:
    """What began before the period is known: a verdict does not change because somebody looks at its minute only."""
    capture = CAPTURES / "adv-epochs.pcap"
    whole = kshark("check", capture, "-T", "json").findings
    start = whole[0]["time_ns"]
    part = kshark("check", capture, "--since", f"{start // 10**9 + 1}", "-T", "json").findings
    assert part == [finding for finding in whole if finding["time_ns"] >= (start // 10**9 + 1) * 10**9]
    assert 0 < len(part) < len(whole)


@pytest.mark.parametrize(
    "way",
    [("check",), ("sessions",), ("stats",), ("read",), ("check", "-T", "json")],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("period", "said"),
    [
        (("--since", "+1h"), "it ends at 2026-11-21 03:37:48.735, before --since +1h; nothing was read"),
        (("--since", "+5s", "--until", "+2s"), "--until +2s is not after --since +5s; nothing was read"),
        (("--until", "2020-01-01T00:00:00Z"), "it begins after --until 2020-01-01T00:00:00Z; nothing was read"),
    ],
)
def test_a_period_without_packets_is_no_all_clear(
    kshark: Run, way: tuple[str, ...], period: tuple[str, ...], said: str
) -> None:
    capture = CAPTURES / "adv-epochs.pcap"
    done = kshark(*way, capture, *period)
    assert (done.code, done.out, done.err) == (2, "", f"kshark: {capture}: {said}\n")


def test_of_several_captures_those_outside_the_period_are_named(kshark: Run) -> None:
    epochs, acks = CAPTURES / "adv-epochs.pcap", CAPTURES / "adv-acks.pcap"
    done = kshark("check", "-q", "--each", epochs, acks, "--since", "2026-11-21T03:38:00Z")
    assert done.code == 0  # the other one was read and judged
    assert (
        f"{epochs}: it ends at 2026-11-21 03:37:48.735, before --since 2026-11-21T03:38:00Z; nothing was read; "
        f"the other files" in done.err
    )
    assert str(acks) not in done.err
