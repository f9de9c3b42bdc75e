"""Draw a member's share sessions over time: sessions as bars, accepted requests as ticks with epochs, errors, events.

Positions on the time axis are percentages, so that the drawing adapts to the page; colours are classes of the page's
style.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from kshark.error_names import ERROR_NAMES
from kshark.report.bands import Band, numbered
from kshark.report.facts import MemberLine, MemberRequest
from kshark.report.window import Window, axis
from kshark.units import clock, counted, safe

_ACKNOWLEDGE: Final = "ShareAcknowledge"
#: Least percent of the width between two labels, on a desktop and on a phone; and between two ticks.
_LABEL, _COARSE, _TICK = 3.0, 9.0, 0.25
#: Pixels of a drawing, and of the line above it for the numbers of events.
HEIGHT, _EVENTS = 86, 14
_TOP, _BOTTOM, _AXIS = 26, 48, 68


def window_of(members: Iterable[MemberLine]) -> Window:
    """Return the time span of all events of these members."""
    times = [step.time_ns for member in members for step in member.steps]
    for member in members:
        for session in member.sessions:
            times += [end.time_ns for end in (session.opened, session.closed) if end is not None]
    return Window(min(times), max(times)) if times else Window(0, 1)


def drawing(
    member: MemberLine, window: Window, restarts: Sequence[int], bands: Sequence[Band] = (), noun: str = "packet"
) -> str:
    """Return an SVG element; `restarts` are the times at which the broker went down, `bands` the member's events.

    `noun`: what numbers are those of.
    """
    label = escape(f"share sessions of member {safe(member.member_id)}: {summary(member)}", quote=True)
    height = HEIGHT + (_EVENTS if bands else 0)
    return (
        f'<svg class="timeline" role="img" aria-label="{label}" width="100%" height="{height}">'
        f"{content(member, window, restarts, bands, noun)}</svg>"
    )


def content(
    member: MemberLine, window: Window, restarts: Sequence[int], bands: Sequence[Band] = (), noun: str = "packet"
) -> str:
    """Return what is in the SVG element. With events it is higher, by the line of their numbers."""
    parts = [
        *axis(window, _AXIS),
        *_restarts(window, unexplained(restarts, bands, window)),
        *_sessions(member, window),
        *_accepted(member.steps, window, noun),
        *_refused(member.steps, window, noun),
    ]
    if not bands:
        return "".join(parts)
    return f'{"".join(numbered(bands, window))}<g transform="translate(0 {_EVENTS})">{"".join(parts)}</g>'


def summary(member: MemberLine) -> str:
    """Return a member's requests and sessions in words: `12 requests, 3 rejected, 2 sessions`."""
    refused = sum(member.refused.values())
    parts = [counted(member.requests, "request"), *([f"{refused} rejected"] if refused else [])]
    return ", ".join([*parts, counted(len(member.sessions), "session")])


def unexplained(restarts: Sequence[int], bands: Sequence[Band], window: Window) -> list[int]:
    """Return the restarts that no event shows."""
    return [at for at in restarts if not any(_is_in(at, band, window) for band in bands)]


def _is_in(time_ns: int, band: Band, window: Window) -> bool:
    """True if a time is within an event, or just before: sessions end with the last answer before it."""
    margin_ns = (window.last_ns - window.first_ns) // 100
    return band.finding.time_ns - margin_ns <= time_ns <= band.end_ns


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


def _accepted(steps: Iterable[MemberRequest], window: Window, noun: str) -> Iterator[str]:
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
        api = "ack" if step.api == _ACKNOWLEDGE else "fetch"
        yield f'<use href="#{kind}-{api}" x="{x}%"><title>{_title(step, noun)}</title></use>'
        if label is not None:
            yield f'<text class="epoch{label}" x="{x}%" y="{_BOTTOM + 13}" text-anchor="middle">{step.epoch}</text>'


def _refused(steps: Iterable[MemberRequest], window: Window, noun: str) -> Iterator[str]:
    for x, step, label in _spaced((step for step in steps if step.error_code), window):
        yield f'<use href="#refused" x="{x}%"><title>{_title(step, noun)}</title></use>'
        if label is not None:
            yield f'<text class="refused{label}" x="{x}%" y="10" text-anchor="middle">{step.error_code}</text>'


def marks() -> str:
    """Return the definitions of the marks of requests: ticks, and a pin for a rejected one."""
    ticks = (
        f'<line id="{kind}-{api}" class="tick {kind}" y1="{top}" y2="{_BOTTOM - 3}"/>'
        for kind in ("step", "open", "final", "silent")
        for api, top in (("fetch", _TOP + 3), ("ack", _TOP + 10))
    )
    pin = f'<line class="refused" y1="17" y2="{_BOTTOM + 2}"/><circle class="refused" cy="17" r="3.5"/>'
    return f'{"".join(ticks)}<g id="refused">{pin}</g>'


def _title(step: MemberRequest, noun: str) -> str:
    error = step.error_code
    answer = (
        "no answer"
        if error is None
        else "accepted"
        if error == 0
        else f"error: {error} {ERROR_NAMES.get(error, '')}".rstrip()
    )
    return escape(f"{clock(step.time_ns, 3)} {noun} {step.packet}: {step.api} epoch {step.epoch}, {answer}")
