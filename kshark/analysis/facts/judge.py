"""The one place where it is decided whether the capture can prove what a rule says.

A rule gives an Argument: what is wrong and by which exchanges one knows. `judge` looks at what lies between them:
holes, messages found again after holes, state that was assumed and not observed, traffic that may have gone elsewhere.
What it cannot rule out makes `unknown`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple, Protocol

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.connections import Connection

#: Why a finding is unknown: the stable word, and what it means.
REASONS: Final = {
    "gap": "bytes of these connections are missing from the capture between the witnesses",
    "cut": "a message between the witnesses was cut or could not be read to its end",
    "version_unknown": "the message's API is none that is known, or its version newer or older",
    "resync": "the message was found again after a gap: its boundary is likely, not certain",
    "beginning_not_seen": "the session, the member or the connection began before the capture or outside it",
    "hidden_traffic": "requests that the capture does not hold (another connection, listener or TLS) would explain it",
    "unanswered": "a request without an answer, or with an error that does not tell, may have been counted or not",
    "disorder": "packets are not in the order in which they were sent: an answer may stand before its request",
    "race": "requests were open at the same time on several connections; which of them the broker took first cannot "
    "be told",
    "release_unknown": "broker releases differ here, and no ApiVersions answer told this one's",
    "assignment_unknown": "what was assigned to the member is not known",
    "lock_unknown": "whether the lock of these records had run out is not known, or how long it was (ShareFetch 0 "
    "does not tell)",
    "leader_moved": "the partition's leader moved, or read its state anew, and what was known of the records before "
    "holds no longer",
    "broker_restart": "the broker was started again, and what it knew of the records before is not known",
    "compaction": "compaction may have taken the records, and no message shows whether it did",
    "end_not_seen": "whether the other connection was still open is not known",
}


class Judgement(NamedTuple):
    """`verdict` is violation, unknown or note, None while more of the capture has to be seen, or refuted: then nothing
    is said."""

    verdict: str | None
    because: str | None = None


class Known(Protocol):
    """What was known of a machine when a step came: the states that it may have met (None: any, because of `doubt`),
    and those of them that the answer agrees with."""

    @property
    def met(self) -> Sequence[Any] | None: ...

    @property
    def agreeing(self) -> Sequence[Any]: ...

    @property
    def doubt(self) -> str | None: ...


PENDING: Final = Judgement(None)
REFUTED: Final = Judgement("refuted")


def judge(argument: Argument, now: Known | None, *, accuses: bool = True) -> Judgement:
    """Whether the capture proves the argument; `now` is what was known at the step it is about, None where it is no
    step's.

    `accuses`: whether its rule can name a party at all; what cannot is a note.
    """
    needs = argument.needs
    because = argument.because or _state(argument, now) or _hole(argument) or _doubt(argument) or _order(argument)
    if because is not None:
        return Judgement("unknown", because)
    if needs.absence is not None:
        return Judgement("unknown", "hidden_traffic")
    if needs.proof is not None:
        shown = needs.proof.holds()
        if shown is None:
            return PENDING
        if isinstance(shown, str):
            return REFUTED if shown == REFUTED.verdict else Judgement("unknown", shown)
        if not shown:
            return REFUTED if needs.unproved is None else Judgement("unknown", needs.unproved)
    return Judgement("violation" if accuses and not argument.noted else "note")


def _doubt(argument: Argument) -> str | None:
    """A witness whose bytes are not certain."""
    return next((call.any_doubt for call in argument.witness if call.any_doubt), None)


def _order(argument: Argument) -> str | None:
    """Witnesses of different connections, of which one ends before the other one begins, or ends, so closely that times
    tell no order."""
    for one, two in combinations(argument.witness, 2):
        if one.connection is two.connection or one.end > two.end:
            continue
        if not two.connection.clock.is_before(one.end_ns, two.time_ns if one.end <= two.packet else two.end_ns):
            return "disorder"
    return None


def _state(argument: Argument, now: Known | None) -> str | None:
    """State that was assumed, or that the broker's answer contradicts."""
    if not argument.needs.state or now is None:
        return None
    if now.met is None:
        return now.doubt
    return None if now.agreeing else "hidden_traffic"


def _hole(argument: Argument) -> str | None:
    """Bytes missing on the witnesses' connections between the first and the last of them, or since these connections
    began."""
    if not argument.witness:
        return None
    first = min(call.packet for call in argument.witness)
    last = max(call.end for call in argument.witness)
    if argument.place is not None:
        last = max(last, argument.place.packet)
    connections = {id(call.connection): call.connection for call in argument.witness}
    if argument.needs.whole:
        return next((reason for one in connections.values() if (reason := _incomplete(one, last))), None)
    return next((reason for one in connections.values() if (reason := one.holes.between(first, last))), None)


def _incomplete(connection: Connection, last: int) -> str | None:
    """Why something of a connection may be missing before that packet."""
    return "beginning_not_seen" if connection.flow.opened_by is None else connection.gaps.between(-1, last)
