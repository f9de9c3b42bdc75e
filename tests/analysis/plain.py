"""Plain objects of the analysis, as short as tests want them: no packet, no byte.

Times are a millisecond a packet, as on tests.packets.Wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshark.analysis.facts.brokers import Broker, By, End
from kshark.analysis.facts.calls import Answer, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.session.state import Branch, PossibleState, SessionState
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.model import Ends, Flow

BROKER = "10.0.0.9:9092"
MS = 1_000_000


def flow(number: int = 0, client: str = "10.0.0.1:50000", broker: str = BROKER) -> Flow:
    return Flow(number, Ends(client, broker), 1, 0, opened_by=0)


def connection(number: int = 0, client: str = "10.0.0.1:50000", *, broker: Broker | None = None) -> ConnectionFacts:
    return ConnectionFacts(flow(number, client), broker)


def end(packet: int, by: By = "client", flow: int = 0) -> End:
    return End(packet, packet * MS, by, flow)


def step(
    epoch: int,
    packet: int = 10,
    error: int | None = 0,
    *,
    on: ConnectionFacts | None = None,
    answered: int | None = None,
    acquired: Sequence[tuple[tuple[str, int], int, int]] = (),
    fetch: bool = True,
    member: str | None = "a" * 22,
    version: int = 1,
    doubt: str | None = None,
    **more: Any,
) -> ShareStep:
    """Epoch and packet of the request, error of the answer (None: there is none), which comes with the packet behind it
    unless told."""
    last = packet + 1 if answered is None else answered
    answer = None if error is None else Answer(last, last * MS, error, None, [(*one, 1) for one in acquired])
    api_key, api = (SHARE_FETCH, "ShareFetch") if fetch else (SHARE_ACKNOWLEDGE, "ShareAcknowledge")
    where = on or connection()
    acknowledges = any(listed.acknowledged for listed in more.get("listed", ()))
    return ShareStep(
        where,
        api_key,
        api,
        version,
        packet,
        packet * MS,
        epoch,
        "c1",
        "g",
        member,
        epoch,
        doubt,
        answer,
        answer is not None,
        acknowledges=acknowledges,
        **more,
    )


def session(*due: int, broker: Broker | None = None) -> SessionState:
    """One that may be in these states; in any where there is none."""
    made = SessionState(broker or Broker([BROKER]), Member())
    made.branches = tuple(Branch(PossibleState(epoch)) for epoch in due) or None
    return made
