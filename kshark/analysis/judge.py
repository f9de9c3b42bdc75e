"""The one place where it is decided whether the capture can prove what a rule says.

A rule gives an Argument: what is wrong and by which exchanges one knows. `judge` looks at what lies between them: holes, messages found
again after holes, state that was assumed and not observed, traffic that may have gone elsewhere. What it cannot rule out makes `unknown`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kshark.analysis.argument import Argument
from kshark.analysis.situation import Situation
from kshark.analysis.steps import Step

#: Why a finding is unknown: the stable word, and what it means.
REASONS: Final = {
    "gap": "bytes of these connections are missing from the capture between the witnesses",
    "cut": "a message between the witnesses was cut or could not be read to its end",
    "version_unknown": "the message's version is newer or older than any known",
    "resync": "the message was found again after a gap: its boundary is likely, not certain",
    "beginning_not_seen": "the session, or the member, began before the capture or outside it",
    "hidden_traffic": "requests that the capture does not hold (another connection, listener or TLS) would explain it",
    "unanswered": "a request without an answer, or with an error that does not tell, may have been counted or not",
    "race": "requests were open at the same time on several connections; which of them the broker took first cannot be told",
    "release_unknown": "broker releases differ here, and no ApiVersions answer told this one's",
    "assignment_unknown": "what was assigned to the member is not known",
    "end_not_seen": "whether the other connection was still open is not known",
}


class Judgement(NamedTuple):
    """`verdict` is violation, unknown or note, or None while more of the capture has to be seen."""

    verdict: str | None
    because: str | None = None


PENDING: Final = Judgement(None)


def judge(argument: Argument, now: Situation | None, *, accuses: bool = True) -> Judgement:
    """Whether the capture proves the argument; `now` is the situation of the step it is about, None where it is no step's.

    `accuses`: whether its rule can name a party at all; what cannot is a note.
    """
    needs = argument.needs
    because = argument.because or _state(argument, now) or _hole(argument) or _doubt(argument)
    if because is not None:
        return Judgement("unknown", because)
    if needs.absence is not None:
        return Judgement("unknown", "hidden_traffic")
    if needs.proof is not None:
        shown = needs.proof.holds()
        if shown is None:
            return PENDING
        if not shown:
            return Judgement("unknown", needs.unproved)
    return Judgement("violation" if accuses and not argument.noted else "note")


def _doubt(argument: Argument) -> str | None:
    """A witness whose bytes are not certain."""
    for call in argument.witness:
        if isinstance(call, Step) and call.any_doubt:
            return call.any_doubt
        if call.doubt:
            return call.doubt
    return None


def _state(argument: Argument, now: Situation | None) -> str | None:
    """State that was assumed, or that the broker's answer contradicts."""
    if not argument.needs.state or now is None:
        return None
    if now.met is None:
        return now.doubt
    return None if now.agreeing else "hidden_traffic"


def _hole(argument: Argument) -> str | None:
    """Bytes missing on the witnesses' connections between the first and the last of them."""
    if not argument.witness:
        return None
    first = min(call.packet for call in argument.witness)
    last = max(call.end for call in argument.witness)
    if argument.place is not None:
        last = max(last, argument.place.packet)
    connections = {id(call.connection): call.connection for call in argument.witness}
    return next((reason for one in connections.values() if (reason := one.holes.between(first, last))), None)
