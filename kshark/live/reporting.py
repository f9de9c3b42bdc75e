"""The state of a running capture as lines and objects: each minute, and when it changes."""

from __future__ import annotations

from typing import Any, Final

from kshark.live.consumer import Status
from kshark.model import Lost
from kshark.output.spans import DIM, PLAIN, WARN, Line
from kshark.units import clock, counted, duration, number, safe, size

#: The status is reported at least this often.
MINUTE_NS: Final = 60_000_000_000
#: A delay is reported from here on, and its end when it is below half of it.
LATE_NS: Final = 5_000_000_000
#: Losses that a sentence names.
_LOSSES: Final = 3


class Reporting:
    """Decide when the status is reported: each minute, at the first loss of a minute, when an interface changes, when
    packets are judged late and when they are no longer, and when something stands in the way of the capture.

    `add` returns the reasons: `minute`, `dropped`, `down`, `up`, `late`, `on_time`, `fault`; none: nothing to report.
    """

    def __init__(self) -> None:
        #: The status that was last reported, and the last loss that was.
        self._reported: Status | None = None
        self._drop_ns: int | None = None
        self._dropped = 0
        self._down: frozenset[str] = frozenset()
        #: Interfaces that came up last.
        self._up: tuple[str, ...] = ()
        self._is_late = False
        self._fault = ""

    def add(self, status: Status) -> list[str]:
        if self._reported is None:
            self._reported = status
        reasons = [*self._drops(status), *self._links(status), *self._delay(status)]
        if status.fault and status.fault != self._fault:
            reasons.append("fault")
        self._fault = status.fault
        if not 0 <= status.now_ns - self._reported.now_ns < MINUTE_NS:
            reasons.append("minute")
        return reasons

    def lines(self, status: Status, reasons: list[str]) -> list[Line]:
        """Return a line for each reason."""
        before = self._reported or status
        return [_line(reason, status, before, self._up) for reason in reasons]

    def reported(self, status: Status, reasons: list[str]) -> None:
        """Note that the status was reported for these reasons."""
        if "minute" in reasons:
            self._reported, self._dropped = status, status.dropped

    def _drops(self, status: Status) -> list[str]:
        is_new = status.dropped > self._dropped
        is_due = self._drop_ns is None or not 0 <= status.now_ns - self._drop_ns < MINUTE_NS
        if not (is_new and is_due):
            return []
        self._dropped, self._drop_ns = status.dropped, status.now_ns
        return ["dropped"]

    def _links(self, status: Status) -> list[str]:
        down, before = frozenset(status.down), self._down
        self._down, self._up = down, tuple(sorted(before - down))
        return ["down"] * bool(down - before) + ["up"] * bool(before - down)

    def _delay(self, status: Status) -> list[str]:
        if not self._is_late and status.delay_ns > LATE_NS:
            self._is_late = True
            return ["late"]
        if self._is_late and status.delay_ns < LATE_NS // 2:
            self._is_late = False
            return ["on_time"]
        return []


def status_object(status: Status, reasons: list[str]) -> dict[str, Any]:
    """Return the status as a JSON line. Times are nanoseconds since 1970; `reasons`: see Reporting."""
    return {
        "status": {
            "time_ns": status.now_ns,
            "since_ns": status.since_ns,
            "reasons": reasons,
            "interfaces": [*status.interfaces],
            "packets": status.packets,
            "dropped": status.dropped,
            "delay_ms": status.delay_ns // 1_000_000,
            "waiting_bytes": status.waiting,
            "lost": lost_objects(status.lost),
            "down": [*status.down],
            "recorder": status.recorder,
            "fault": status.fault,
        }
    }


def summary_of(status: Status) -> dict[str, Any]:
    """Return what the summary says about the capture: `not_judged`, packets, only if some were not."""
    summary: dict[str, Any] = {
        "packets": status.packets,
        "dropped": status.dropped,
        "lost": lost_objects(status.lost),
    }
    if status.not_judged:
        summary["not_judged"] = status.not_judged
    return summary


def lost_objects(lost: tuple[Lost, ...]) -> list[dict[str, int]]:
    """Return losses as JSON objects."""
    return [{"since": loss.since_ns, "until": loss.until_ns, "count": loss.packets} for loss in lost]


def end_line(status: Status) -> Line:
    """Return the sentence about packets that were lost or not judged; nothing if there are none."""
    sentences = []
    if status.dropped:
        sentences.append(
            f"{_were(status.dropped)} lost, because the kernel had no room for them{_spans(status.lost)}: what "
            "cannot be proved for that reason has the reason capture_lost."
        )
    if status.not_judged:
        sentences.append(f"{_were(status.not_judged)} not judged, because the capture had to end.")
    return [(" ".join(sentences), WARN)] if sentences else []


def _line(reason: str, status: Status, before: Status, up: tuple[str, ...]) -> Line:
    now = (f"kshark: {clock(status.now_ns, 3)}  ", DIM)
    match reason:
        case "minute":
            return [now, (_state(status, before), PLAIN)]
        case "dropped":
            text = f"{_were(status.dropped)} lost so far, because the kernel had no room{_spans(status.lost[-1:])}"
            return [now, (text, WARN)]
        case "down":
            return [now, (f"{_named(status.down)} down; the capture continues when there is a link", WARN)]
        case "up":
            return [now, (f"{_named(up)} up again", PLAIN)]
        case "fault":
            return [now, (safe(status.fault), WARN)]
        case "late":
            text = f"packets are judged {duration(status.delay_ns)} late; {size(status.waiting)} wait"
            return [now, (text, WARN)]
        case "on_time":
            return [now, ("packets are judged on time again", PLAIN)]
    raise AssertionError(reason)


def _state(status: Status, before: Status) -> str:
    """Return `48,720 packets (812/s), 0 lost, 0.1 s late`."""
    took_ns = status.now_ns - before.now_ns
    rate = max(0, status.packets - before.packets) * 1_000_000_000 // took_ns if took_ns > 0 else 0
    parts = [f"{counted(status.packets, 'packet')} ({number(rate)}/s)", f"{number(status.dropped)} lost"]
    parts.append(f"{duration(status.delay_ns)} late" if status.delay_ns else "on time")
    if status.down:
        parts.append(f"{_named(status.down)} down")
    if status.recorder:
        parts.append(safe(status.recorder))
    return ", ".join(parts)


def _were(packets: int) -> str:
    return f"{counted(packets, 'packet')} {'was' if packets == 1 else 'were'}"


def _named(interfaces: tuple[str, ...]) -> str:
    return f"{', '.join(map(safe, interfaces))} {'is' if len(interfaces) == 1 else 'are'}"


def _spans(lost: tuple[Lost, ...]) -> str:
    """Return when packets were lost: `, 12:03:40.100 to 12:03:41.020 (137)`."""
    spans = [f"{clock(loss.since_ns, 3)} to {clock(loss.until_ns, 3)} ({number(loss.packets)})" for loss in lost]
    more = f" and {len(spans) - _LOSSES} earlier" if len(spans) > _LOSSES else ""
    return f", {', '.join(spans[-_LOSSES:])}{more}" if spans else ""
