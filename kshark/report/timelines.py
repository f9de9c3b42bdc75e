"""Draw a member's share sessions over time: sessions as bars, accepted requests as ticks with epochs, errors, restarts.

Positions on the time axis are percentages, so that the drawing adapts to the page; colours are classes of the page's
style.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from kshark.error_names import ERROR_NAMES
from kshark.report.facts import MemberLine, MemberRequest
from kshark.units import clock

_ACKNOWLEDGE: Final = "ShareAcknowledge"
#: Least percent of the width between two labels, on a desktop and on a phone; and between two ticks.
_LABEL, _COARSE, _TICK = 3.0, 9.0, 0.12
_HEIGHT, _TOP, _BOTTOM, _AXIS = 86, 26, 48, 68
#: Labelled positions of the axis; on a phone every second one.
_TIMES: Final = 5


class Window(NamedTuple):
    """The time span of the drawings of one capture."""

    first_ns: int
    last_ns: int

    def at(self, time_ns: int) -> float:
        """Return the position of a time, in percent of the width."""
        return round(0.8 + 98.0 * (time_ns - self.first_ns) / max(1, self.last_ns - self.first_ns), 2)

    @property
    def digits(self) -> int:
        """The digits of a second that its labels need."""
        return 3 if self.last_ns - self.first_ns < 20_000_000_000 else 1


def window_of(members: Iterable[MemberLine]) -> Window:
    """Return the time span of all events of these members."""
    times = [step.time_ns for member in members for step in member.steps]
    for member in members:
        for session in member.sessions:
            times += [end.time_ns for end in (session.opened, session.closed) if end is not None]
    return Window(min(times), max(times)) if times else Window(0, 1)


def drawing(member: MemberLine, window: Window, restarts: Sequence[int]) -> str:
    """Return an SVG element; `restarts` are the times at which the broker went down."""
    parts = [
        *_axis(window),
        *_restarts(window, restarts),
        *_sessions(member, window),
        *_accepted(member.steps, window),
        *_refused(member.steps, window),
    ]
    label = escape(f"share sessions of member {member.member_id}", quote=True)
    return (
        f'<svg class="timeline" role="img" aria-label="{label}" width="100%" height="{_HEIGHT}">{"".join(parts)}</svg>'
    )


def _axis(window: Window) -> Iterator[str]:
    yield f'<line class="axis" x1="0" x2="100%" y1="{_AXIS}" y2="{_AXIS}"/>'
    for index in range(_TIMES):
        time_ns = window.first_ns + (window.last_ns - window.first_ns) * index // (_TIMES - 1)
        x, anchor = window.at(time_ns), "start" if index == 0 else "end" if index == _TIMES - 1 else "middle"
        fine = " fine" if index % 2 else ""
        yield f'<line class="axis" x1="{x}%" x2="{x}%" y1="{_AXIS}" y2="{_AXIS + 4}"/>'
        text = clock(time_ns, window.digits)
        yield f'<text class="axis{fine}" x="{x}%" y="{_AXIS + 16}" text-anchor="{anchor}">{text}</text>'


def restarts_of(members: Iterable[MemberLine]) -> list[int]:
    """Return the times at which sessions ended because their broker went down."""
    return sorted(
        {
            s.closed.time_ns
            for member in members
            for s in member.sessions
            if s.closed is not None and s.closed.how == "broker_restart"
        }
    )


def _restarts(window: Window, restarts: Sequence[int]) -> Iterator[str]:
    for time_ns in restarts:
        x = window.at(time_ns)
        title = f"<title>broker went down, {clock(time_ns, 3)}</title>"
        yield f'<line class="restart" x1="{x}%" x2="{x}%" y1="2" y2="{_AXIS}">{title}</line>'
        anchor = "end" if x > 90 else "start"
        yield f'<text class="restart" x="{x}%" dx="{-4 if x > 90 else 4}" y="10" text-anchor="{anchor}">restart</text>'


def _sessions(member: MemberLine, window: Window) -> Iterator[str]:
    steps = [step.time_ns for step in member.steps] or [window.first_ns]
    for number, session in enumerate(member.sessions):
        if session.opened is None and session.closed is None:
            continue
        begin = window.at(session.opened.time_ns if session.opened is not None else window.first_ns)
        end = window.at(session.closed.time_ns if session.closed is not None else steps[-1])
        how = "no end in the capture" if session.closed is None or session.closed.how == "open" else session.closed.how
        epochs = f"epochs {session.first_epoch} to {session.last_epoch}"
        title = f"session {session.session}: {epochs}, {session.requests} requests; ended: {how}"
        width = max(0.4, round(end - begin, 2))
        kind = "odd" if number % 2 else "even"
        attributes = f'x="{begin}%" y="{_TOP}" width="{width}%" height="{_BOTTOM - _TOP}" rx="3"'
        yield f'<rect class="session {kind}" {attributes}><title>{escape(title)}</title></rect>'


def _spaced(steps: Iterable[MemberRequest], window: Window) -> Iterator[tuple[float, MemberRequest, str | None]]:
    """Return the steps that fit, each with its position and the class of its label; None if the label does not fit."""
    drawn = labelled = coarse = -100.0
    for step in steps:
        x = window.at(step.time_ns)
        if x - drawn < _TICK:
            continue
        drawn = x
        label = None
        if x - labelled >= _LABEL:
            labelled = x
            label = "" if x - coarse >= _COARSE else " fine"
            coarse = coarse if label else x
        yield x, step, label


def _accepted(steps: Iterable[MemberRequest], window: Window) -> Iterator[str]:
    for x, step, label in _spaced((step for step in steps if not step.error_code), window):
        kind = (
            "silent"
            if step.error_code is None
            else "open"
            if step.epoch == 0
            else "final"
            if step.epoch < 0
            else "step"
        )
        top = _TOP + (10 if step.api == _ACKNOWLEDGE else 3)
        title = f"<title>{_title(step)}</title>"
        yield f'<line class="tick {kind}" x1="{x}%" x2="{x}%" y1="{top}" y2="{_BOTTOM - 3}">{title}</line>'
        if label is not None:
            yield f'<text class="epoch{label}" x="{x}%" y="{_BOTTOM + 13}" text-anchor="middle">{step.epoch}</text>'


def _refused(steps: Iterable[MemberRequest], window: Window) -> Iterator[str]:
    for x, step, label in _spaced((step for step in steps if step.error_code), window):
        title = f"<title>{_title(step)}</title>"
        yield f'<line class="refused" x1="{x}%" x2="{x}%" y1="17" y2="{_BOTTOM + 2}">{title}</line>'
        yield f'<circle class="refused" cx="{x}%" cy="17" r="3.5"><title>{_title(step)}</title></circle>'
        if label is not None:
            yield f'<text class="refused{label}" x="{x}%" y="10" text-anchor="middle">{step.error_code}</text>'


def _title(step: MemberRequest) -> str:
    error = step.error_code
    answer = (
        "no answer"
        if error is None
        else "accepted"
        if error == 0
        else f"error: {error} {ERROR_NAMES.get(error, '')}".rstrip()
    )
    return escape(f"{clock(step.time_ns, 3)} packet {step.packet}: {step.api} epoch {step.epoch}, {answer}")
