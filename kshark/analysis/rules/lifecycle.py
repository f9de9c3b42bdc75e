"""Why there is no session (122): what ended or prevented it. Rules 25, 26, 28, 31 and 45."""

from __future__ import annotations

from typing import Final

from kshark.analysis.evidence import Argument, Needs
from kshark.analysis.memory import Ending, Situation
from kshark.analysis.releases import all_say
from kshark.analysis.rules.registry import rule
from kshark.analysis.steps import Call, Kind, Reply

#: Epochs that need a session.
_IN_A_SESSION: Final = (Kind.SUBSEQUENT, Kind.FINAL, Kind.NEGATIVE)
#: Endings that are nobody's fault.
_ORDINARY: Final = ("connection_closed", "broker_restart", "evicted", "session_limit")


def _ended_by(now: Situation, *causes: str) -> Ending | None:
    """What ended the session that the broker did not find, when it is one of these: the first that is certain, else the first."""
    if not now.endings:
        return None
    ending = next((ending for ending in now.endings if ending.because is None), now.endings[0])
    return ending if ending.cause in causes else None


def _argument(now: Situation, ending: Ending, noted: bool = False) -> Argument:
    known = (ending.step, now.memory.alive)
    witness: tuple[Call, ...] = (next(step for step in known if step is not None), now.step)
    before = "" if ending.step is not None or now.memory.alive is None else f"{now.memory.alive.story}; "
    return Argument(f"{before}{ending.told}; {now.step.story}", witness, cause=ending.cause, noted=noted, because=ending.because)


@rule("USE_AFTER_FINAL", kinds=_IN_A_SESSION, replies=(Reply.NO_SESSION,))
def used_after_final(now: Situation) -> Argument | None:
    """Epoch -1 was accepted, and the session is used again."""
    ending = _ended_by(now, "final_epoch")
    return _argument(now, ending) if ending else None


@rule("DUPLICATE_PARTITION_ENTRY", kinds=_IN_A_SESSION, replies=(Reply.NO_SESSION,))
def lost_in_a_failed_reopen(now: Situation) -> Argument | None:
    """An epoch 0 that listed a partition twice took the old session away and opened no new one."""
    ending = _ended_by(now, "failed_reopen")
    return _argument(now, ending) if ending else None


@rule("SESSION_KILLED_BY_OLD_CONNECTION", kinds=_IN_A_SESSION, replies=(Reply.NO_SESSION,))
def killed_by_an_old_connection(now: Situation) -> Argument | None:
    """Reopened on another connection, the session died when the first one closed (4.1)."""
    ending = _ended_by(now, "old_connection_closed")
    return _argument(now, ending) if ending else None


@rule("SESSION_UNKNOWN", kinds=_IN_A_SESSION, replies=(Reply.NO_SESSION,))
def ended_unasked(now: Situation) -> Argument | None:
    """The connection closed, the broker restarted, the session gave way or found no room: nobody broke a rule."""
    ending = _ended_by(now, *_ORDINARY)
    return _argument(now, ending, noted=True) if ending else None


@rule("SESSION_UNKNOWN", kinds=(Kind.INITIAL,), replies=(Reply.NO_SESSION,))
def found_no_room(now: Situation) -> Argument | None:
    """Until 4.0 a full cache refuses epoch 0 with this error; later releases never do."""
    step = now.step
    if not step.is_fetch:
        return None
    full = all_say(now.memory.broker.releases, "full_is_not_found")
    if full is False:
        text = f"{step.story}, though it opens one"
        return Argument(text, (step,), Needs.EXCHANGE, "broker_anomaly", blame="broker")
    text = f"{step.story}: the broker had no room for another"
    return Argument(text, (step,), Needs.EXCHANGE, "session_limit", noted=True, because=None if full else "release_unknown")


@rule("SESSION_UNKNOWN", kinds=(Kind.INITIAL,), replies=(Reply.NO_SESSION,))
def looked_for_none(now: Situation) -> Argument | None:
    """A ShareAcknowledge with epoch 0 is refused before any session is looked for, with another error."""
    step = now.step
    if step.is_fetch:
        return None
    return Argument(f"{step.story}; that epoch asks for no session", (step,), Needs.EXCHANGE, "broker_anomaly", blame="broker")


@rule("SESSION_UNKNOWN", kinds=_IN_A_SESSION, replies=(Reply.NO_SESSION,))
def never_opened(now: Situation) -> Argument | None:
    """The member joined in sight of the capture and never asked this broker for a session.

    Only a connection that was there when it joined shows that: one opened later may have had another before it.
    """
    step, memory = now.step, now.memory
    if memory.ever_opened or now.endings:
        return None
    join = memory.member.join
    because = _why_not_never(now)
    joined = f"the member joined (packet {join.packet}) and opened no session here; " if join is not None else ""
    witness = (join, step) if join is not None else (step,)
    return Argument(f"{joined}{step.story}", witness, Needs.EXCHANGE, "never_opened", blame="client", because=because)


def _why_not_never(now: Situation) -> str | None:
    """Why an opening may have gone unseen."""
    step, memory, join = now.step, now.memory, now.memory.member.join
    first = step if now.here is None else now.here.first
    if join is None or join.packet > first.packet or first.epoch > 1:
        return "beginning_not_seen"
    if step.connection.flow.first_packet > join.packet:
        return "hidden_traffic"
    elsewhere = (other for other in memory.member.brokers if other is not memory.broker)
    if any(not memory.broker.is_not(other) for other in elsewhere):
        return "hidden_traffic"
    return memory.broker.lost.between(join.packet, step.end)


@rule("SESSION_LIMIT", replies=(Reply.NO_ROOM,))
def limited(now: Situation) -> Argument | None:
    """The broker holds as many sessions as it may."""
    return Argument(now.step.story, (now.step,), Needs.EXCHANGE, noted=True)
