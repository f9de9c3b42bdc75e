"""The judge: decide whether the capture proves the argument of a rule. No other module decides this.

`judge` compares the facts that an argument needs (kshark.analysis.facts.known) with the packets of its exchanges. It
checks the traffic between these: holes, messages found again after holes, traffic that may have used another
connection. A possibility that it cannot exclude makes the finding `unknown`.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final, NamedTuple

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.bases import OF_CLIENTS, resolution_ns
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import ALWAYS, Known
from kshark.model import UNKNOWN_PACKET

#: Reasons of an unknown finding: the stable word and its meaning.
REASONS: Final = {
    "gap": "the capture lacks bytes of these connections between the exchanges that prove the finding",
    "capture_lost": "the capturing host dropped packets: bytes of these connections are missing between the exchanges "
    "that prove the finding",
    "cut": "a message among these exchanges was cut or could not be read to its end",
    "limit": "kshark reached a limit of its memory, and gave up what could explain it",
    "version_unknown": "the API of the message is unknown, or its version is older or newer than the known ones",
    "resync": "the message was found again after a gap: its boundary is likely, but not certain",
    "beginning_not_seen": "the session, the member or the connection began before the capture or outside it",
    "hidden_traffic": "requests that are not in the capture (another connection, listener or TLS) could explain it",
    "unanswered": "a request has no answer, or an error that does not show whether it was counted",
    "in_flight": "the client may have sent the request before the answer reached it: nothing in the capture "
    "(as a TCP acknowledgement) shows that it had the answer",
    "disorder": "the capture does not show the order in which they were sent: an answer may come before its request",
    "race": "requests were open at the same time on several connections, and their order in the broker is unknown",
    "release_unknown": "broker releases differ here, and no ApiVersions answer shows the release of this broker",
    "assignment_unknown": "the assignment of the member is unknown",
    "lock_unknown": "it is unknown whether the lock of these records had expired, or how long it lasted (ShareFetch 0 "
    "does not contain the duration)",
    "leader_moved": "the partition's leader moved or read its state again, so the earlier state of the records is "
    "uncertain",
    "broker_restart": "the broker was restarted, so its earlier state of the records is unknown",
    "compaction": "compaction may have removed the records, and no message shows whether it did",
    "listener_unknown": "the listener answered no connection without a PROXY header in this capture, so it may have "
    "closed this one for another reason",
    "end_not_seen": "it is unknown whether the other connection was still open",
    "setting_unknown": "a setting of the broker decides, and neither the capture nor an option shows it",
    "clock": "the capture's clock does not prove how much time passed: it was set meanwhile, stood still, is coarse, "
    "or the file has no times",
    "event": "an event in the capture left the accused no choice: event_code and event_packet name it",
}


class Judgement(NamedTuple):
    """The decision about an argument.

    `verdict`: violation, unknown or note. None: it depends on later packets. refuted: there is nothing to report.
    """

    verdict: str | None
    because: str | None = None


PENDING: Final = Judgement(None)
REFUTED: Final = Judgement("refuted")
#: A fact is uncertain without which there is no argument.
NO_CASE: Final = Judgement("refuted")
#: A note that the capture always proves; and a refusal whose message could not be read.
NOTE: Final = Judgement("note")
UNREAD: Final = Judgement("unknown", "cut")
#: A verdict that a limit of kshark gave up before its proof could appear.
GIVEN_UP: Final = Judgement("unknown", "limit")


def judge(argument: Argument, states: Known = ALWAYS, *, accuses: bool = True) -> Judgement:
    """Decide whether the capture proves the argument.

    `states`: the possible states that the step of the argument has met.
    `accuses`: True if the rule can name a party at fault. Otherwise the verdict is a note.
    """
    needs = argument.needs
    received = [has_received(argument.witness[-1], call) for call in needs.knows]
    if False in received:
        return REFUTED
    fact = _uncertain_fact(argument, states)
    if fact is not None and fact.because is None:
        return NO_CASE
    because = (
        fact.because
        if fact is not None
        else _hole(argument)
        or _doubt(argument)
        or _order(argument)
        or (_ground(argument) if argument.grounds else None)
    )
    if because is not None:
        return Judgement("unknown", because)
    if None in received:
        return Judgement("unknown", "in_flight")
    if (hidden := _hidden(argument)) is not None:
        return hidden
    if needs.proof is not None:
        shown = needs.proof.holds()
        if shown is None:
            return PENDING
        if isinstance(shown, str):
            return REFUTED if shown == REFUTED.verdict else Judgement("unknown", shown)
        if not shown:
            return REFUTED if needs.proof.because is None else unproved(argument)
    return Judgement("violation" if accuses and not argument.noted else "note")


def unproved(argument: Argument) -> Judgement:
    """Decide about an argument whose proof the capture does not show."""
    proof = argument.needs.proof
    return Judgement("unknown", (proof and proof.because) or "hidden_traffic")


def unexplained(argument: Argument, first: tuple[Argument, Judgement] | None) -> Judgement:
    """Decide about a refusal that no explanation is proved of: unknown, for the reason of the first one, else its own.

    `argument`: names facts that show why nothing explains it.
    """
    because = None
    if first is not None:
        explanation, judgement = first
        proof = explanation.needs.proof
        because = proof.because if judgement is PENDING and proof is not None else judgement.because
    return Judgement("unknown", because or judge(argument).because)


def has_received(step: Call, before: Call) -> bool | None:
    """True if the client had received the answer of `before` when it sent `step`, by its TCP acknowledgements.

    False if it certainly had not; None if the capture does not show it. The application may have read the answer later,
    never earlier.
    """
    if step.connection is before.connection:
        return None if step.knows == UNKNOWN_PACKET else before.end <= step.knows
    received_ns = before.received_ns
    return True if received_ns is not None and step.connection.clock.is_before(received_ns, step.time_ns) else None


def _doubt(argument: Argument) -> str | None:
    """Return the doubt of the first witness whose bytes are uncertain."""
    return next((call.any_doubt for call in argument.witness if call.any_doubt), None)


def _order(argument: Argument) -> str | None:
    """Return "disorder" if the times of witnesses on different connections are too close to give their order.

    One of the two ends before the other begins or ends.
    """
    for first, second in combinations(argument.witness, 2):
        if first.connection is second.connection or first.end > second.end:
            continue
        if not second.connection.clock.is_before(
            first.end_ns, second.time_ns if first.end <= second.packet else second.end_ns
        ):
            return "disorder"
    return None


def _ground(argument: Argument) -> str | None:
    """Return why something that the argument rests on is not proved (kshark.analysis.facts.bases)."""
    resolution = resolution_ns(time for call in argument.witness for time in (call.time_ns, call.end_ns))
    return next((why for ground in argument.grounds if (why := ground.weakness(resolution))), None)


def _hidden(argument: Argument) -> Judgement | None:
    """Decide whether traffic outside the capture may explain the case.

    None of its clients can, if the capture holds all traffic of them, and no byte of their hosts is missing meanwhile.
    Only the end of the capture shows that.
    """
    absence, complete = argument.needs.absence, argument.witness[-1].connection.clock.complete
    if absence is None:
        return None
    if absence not in OF_CLIENTS or complete is None:
        return Judgement("unknown", "hidden_traffic")
    if not complete.is_over:
        return PENDING
    first, last = argument.witness[0].packet, argument.witness[-1].end
    for connection in {id(call.connection): call.connection for call in argument.witness}.values():
        if not complete.holds(connection.host):
            return Judgement("unknown", "hidden_traffic")
        broker = connection.broker
        missing = None if broker is None else broker.missing_between((connection.host,), first, last)
        if missing is not None:
            return Judgement("unknown", missing)
    return None


def _uncertain_fact(argument: Argument, states: Known) -> Known | None:
    """Return the first fact that is not certain from the first witness to the last one."""
    needs = argument.needs
    facts = (*needs.facts, states) if needs.state else needs.facts
    first, last = argument.witness[0].packet, argument.witness[-1].packet
    return next((fact for fact in facts if not fact.covers(first, last)), None)


def _hole(argument: Argument) -> str | None:
    """Return why bytes may be missing on the witnesses' connections.

    The interval begins at the first witness, or at the beginning of the connections, and ends at the last witness.
    """
    if not argument.witness:
        return None
    first = min(call.packet for call in argument.witness)
    last = max(call.end for call in argument.witness)
    if argument.position is not None:
        last = max(last, argument.position.packet)
    connections = {id(call.connection): call.connection for call in argument.witness}
    if argument.needs.whole:
        return next((reason for connection in connections.values() if (reason := _incomplete(connection, last))), None)
    return next(
        (reason for connection in connections.values() if (reason := connection.holes.between(first, last))), None
    )


def _incomplete(connection: ConnectionFacts, last: int) -> str | None:
    """Return why the connection may be incomplete before that packet."""
    return "beginning_not_seen" if connection.flow.opened_by is None else connection.gaps.between(-1, last)
