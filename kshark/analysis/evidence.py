"""The one place where it is decided whether the capture can prove what a rule says.

A rule gives an Argument: what is wrong and by which exchanges one knows. `judge` looks at what lies between them: holes, messages found
again after holes, state that was assumed and not observed, traffic that may have gone elsewhere. What it cannot rule out makes `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from kshark.analysis.memory import Situation
from kshark.analysis.steps import Call, Partition, Step
from kshark.analysis.surroundings import Connection
from kshark.anomaly import CATALOGUE, Blame

#: Why a finding is unknown: the stable word, and what it means.
REASONS: Final = {
    "gap": "bytes of these connections are missing from the capture between the witnesses",
    "cut": "a message between the witnesses was cut or could not be read to its end",
    "version_unknown": "the message's version is newer or older than any known",
    "resync": "the message was found again after a gap: its boundary is likely, not certain",
    "beginning_not_seen": "the session, or the member, began before the capture or outside it",
    "hidden_traffic": "requests that the capture does not hold (another connection, listener or TLS) would explain it",
    "unanswered": "a request without an answer, or with an error that does not tell, may have been counted or not",
    "release_unknown": "broker releases differ here, and no ApiVersions answer told this one's",
    "assignment_unknown": "what was assigned to the member is not known",
    "end_not_seen": "whether the other connection was still open is not known",
}


class Needs(Enum):
    """What has to be certain for an argument to hold."""

    #: The exchange itself: its bytes say it all.
    EXCHANGE = 1
    #: Also the session's state, observed from the first witness on; the broker's answer agrees with it.
    STATE = 2
    #: Also that nothing happened unseen: no capture proves that.
    ABSENCE = 3


class StillOpen(NamedTuple):
    """A connection that must have been open after a packet: a later request or FIN of its client proves it."""

    connection: Connection
    after: int


class Place(NamedTuple):
    """Where a finding stands that is no exchange's."""

    connection: Connection
    packet: int
    time_ns: int


@dataclass(slots=True, frozen=True)
class Argument:
    """What a rule says, in one sentence, and the exchanges by which one knows (in their order, the one it is about last).

    `because` is a doubt that the rule itself has; `noted`: nobody broke a rule; `blame` None: the catalogue's first.
    """

    text: str
    witness: Sequence[Call]
    needs: Needs = Needs.STATE
    cause: str | None = None
    blame: Blame | None = None
    noted: bool = False
    because: str | None = None
    still_open: StillOpen | None = None
    partition: Partition | None = None
    place: Place | None = None

    def is_note(self, code: str) -> bool:
        """Whether it accuses nobody: what cannot be proved of it need not be said."""
        return self.noted or not CATALOGUE[code].blame


class Judgement(NamedTuple):
    """`verdict` is violation, unknown or note, or None while more of the capture has to be seen."""

    verdict: str | None
    because: str | None = None


PENDING: Final = Judgement(None)


def judge(code: str, argument: Argument, now: Situation | None) -> Judgement:
    """Whether the capture proves the argument; `now` is the situation of the step it is about, None where it is no step's."""
    because = argument.because or _state(argument, now) or _hole(argument) or _doubt(argument)
    if because is not None:
        return Judgement("unknown", because)
    if argument.needs is Needs.ABSENCE:
        return Judgement("unknown", "hidden_traffic")
    if argument.still_open is not None:
        open_then = _was_open(*argument.still_open)
        if open_then is None:
            return PENDING
        if not open_then:
            return Judgement("unknown", "end_not_seen")
    return Judgement("note" if argument.is_note(code) else "violation")


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
    if argument.needs is Needs.EXCHANGE or now is None:
        return None
    if now.expected is None:
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
    return next((reason for one in connections.values() if (reason := one.lost.between(first, last))), None)


def _was_open(connection: Connection, after: int) -> bool | None:
    """None while that cannot be told yet. A reset proves nothing: it also comes from a socket closed before."""
    if connection.last_request > after or (connection.client_fin is not None and connection.client_fin > after):
        return True
    return False if connection.over else None
