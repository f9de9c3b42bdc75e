"""The status of a running capture: each minute, and at once when something changes."""

from __future__ import annotations

from typing import Any

from kshark.live import Lost, Status
from kshark.live.reporting import Reporting, end_line, status_object, summary_of
from kshark.output.spans import plain
from kshark.units import clock

SECOND = 1_000_000_000
START_NS = 1_795_231_172_000_000_000


def status(seconds: float, **changed: Any) -> Status:
    return Status(("eth0", "eth1"), START_NS, START_NS + int(seconds * SECOND), **changed)


class Reported:
    """What is reported, without the time in front."""

    def __init__(self) -> None:
        self._reporting = Reporting()

    def at(self, seconds: float, **changed: Any) -> list[str]:
        now = status(seconds, **changed)
        reasons = self._reporting.add(now)
        lines = [plain(line) for line in self._reporting.lines(now, reasons)]
        self._reporting.reported(now, reasons)
        front = f"kshark: {clock(now.now_ns, 3)}  "
        assert all(line.startswith(front) for line in lines)
        return [line.removeprefix(front) for line in lines]


def test_each_minute_one_line() -> None:
    reported = Reported()
    assert [reported.at(seconds / 4, packets=seconds * 203) for seconds in range(240)] == [[]] * 240
    assert reported.at(60, packets=48_720) == ["48,720 packets (812/s), 0 lost, on time"]
    assert reported.at(60.25, packets=48_720) == []
    assert reported.at(120, packets=48_780) == ["48,780 packets (1/s), 0 lost, on time"]
    assert reported.at(60, packets=48_780) == ["48,780 packets (0/s), 0 lost, on time"]  # the clock was set back


def test_the_first_loss_is_reported_at_once_and_more_with_the_minute() -> None:
    reported = Reported()
    reported.at(0)
    first, second = Lost(START_NS + SECOND, START_NS + 2 * SECOND, 137), Lost(START_NS, START_NS, 3)
    assert reported.at(1, dropped=137, lost=(first,)) == [
        "137 packets were lost so far, because the kernel had no room, 03:19:33.000 to 03:19:34.000 (137)"
    ]
    assert reported.at(2, dropped=140, lost=(first, second)) == []
    assert reported.at(60, dropped=140, lost=(first, second)) == ["0 packets (0/s), 140 lost, on time"]
    assert reported.at(61.5, dropped=140) == []
    assert reported.at(62, dropped=141) == ["141 packets were lost so far, because the kernel had no room"]


def test_interfaces_that_go_down_and_come_up() -> None:
    reported = Reported()
    reported.at(0)
    assert reported.at(1, down=("eth0",)) == ["eth0 is down; the capture continues when there is a link"]
    assert reported.at(2, down=("eth0",)) == []
    assert reported.at(3, down=("eth0", "eth1")) == ["eth0, eth1 are down; the capture continues when there is a link"]
    assert reported.at(4, down=("eth1",)) == ["eth0 is up again"]
    assert reported.at(60, down=("eth1",)) == ["0 packets (0/s), 0 lost, on time, eth1 is down"]
    assert reported.at(61) == ["eth1 is up again"]


def test_a_delay_and_its_end() -> None:
    reported = Reported()
    reported.at(0)
    assert reported.at(1, delay_ns=4 * SECOND) == []
    assert reported.at(2, delay_ns=6 * SECOND, waiting=12_400_000) == ["packets are judged 6.00 s late; 12.4 MB wait"]
    assert reported.at(3, delay_ns=5 * SECOND) == []
    assert reported.at(4, delay_ns=2 * SECOND) == ["packets are judged on time again"]
    assert reported.at(60, delay_ns=2 * SECOND, recorder="60 s") == ["0 packets (0/s), 0 lost, 2.00 s late, 60 s"]


def test_what_stands_in_the_way_is_said_once() -> None:
    reported = Reported()
    reported.at(0)
    assert reported.at(1, fault="/tmp: no space left") == ["/tmp: no space left"]
    assert reported.at(2, fault="/tmp: no space left") == []
    assert reported.at(3) == []
    assert reported.at(4, fault="/tmp: no space left") == ["/tmp: no space left"]


def test_as_json_the_keys_of_the_status() -> None:
    lost = (Lost(1, 2, 3),)
    now = status(2, packets=7, dropped=3, lost=lost, down=("eth0",), delay_ns=1_500_000, waiting=9, recorder="r")
    assert status_object(now, ["minute"]) == {
        "status": {
            "time_ns": START_NS + 2 * SECOND,
            "since_ns": START_NS,
            "reasons": ["minute"],
            "interfaces": ["eth0", "eth1"],
            "packets": 7,
            "dropped": 3,
            "delay_ms": 1,
            "waiting_bytes": 9,
            "lost": [{"since": 1, "until": 2, "count": 3}],
            "down": ["eth0"],
            "recorder": "r",
            "fault": "",
        }
    }


def test_the_end_names_what_was_lost_and_not_judged() -> None:
    assert end_line(status(0, packets=9)) == []
    assert summary_of(status(0, packets=9)) == {"packets": 9, "dropped": 0, "lost": []}
    lost = tuple(Lost(START_NS + n * SECOND, START_NS + n * SECOND, 1) for n in range(5))
    now = status(9, dropped=5, lost=lost, not_judged=7)
    assert plain(end_line(now)) == (
        "5 packets were lost, because the kernel had no room for them, 03:19:34.000 to 03:19:34.000 (1), "
        "03:19:35.000 to 03:19:35.000 (1), 03:19:36.000 to 03:19:36.000 (1) and 2 earlier: what cannot be proved for "
        "that reason has the reason capture_lost. 7 packets were not judged, because the capture had to end."
    )
    assert summary_of(now)["not_judged"] == 7
