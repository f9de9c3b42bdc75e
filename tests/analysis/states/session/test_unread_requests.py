"""Share requests that cannot be read: a session that is told of the first of several knows what it knows when told of
each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark.analysis import Analyzer
from kshark.analysis.facts.connections import ConnectionFacts as Seen
from kshark.api_keys import SHARE_FETCH
from kshark.model import Finding
from tests.analysis.talks import handed, unread
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Asked, Conversation, Member, events

#: What is done, by which member, on which connection, and how far its epoch or the offsets are from the ones expected.
Move = tuple[str, int, int, int]
WORDS = (
    "unread",
    "unread",
    "fetch",
    "fetch",
    "acknowledge",
    "answer",
    "answer",
    "refuse",
    "open",
    "beat",
    "leave",
    "close",
)
MOVES = st.tuples(st.sampled_from(WORDS), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))


def answered(asked: Asked, first: int) -> None:
    asked.answered(**({"responses": list(handed((0, first, first + 4, 1)))} if asked.key == SHARE_FETCH else {}))


def said(moves: list[Move]) -> Conversation:
    """Three members on two connections; each begins with an open session."""
    talk = Conversation()
    connections = [talk.connection(), talk.connection()]
    members = [talk.member(name, connection=connections[at]) for name, at in (("a", 0), ("b", 0), ("c", 1))]
    due, waiting, closed = [1, 1, 1], [], set()
    for place, member in enumerate(members):
        answered(member.share_fetch(0, [0]), 10 * place)
    for word, who, where, far in moves:
        member = members[who]
        at = member.on(connections[where]) if far == 2 else member
        if id(at.connection) in closed:
            continue
        if word == "unread":
            unread(at.connection)
        elif word in ("fetch", "acknowledge", "open"):
            waiting.append(asked(word, at, due, who, far))
        elif word in ("answer", "refuse") and waiting:
            reply(waiting.pop(0), word, far)
        elif word in ("beat", "leave"):
            member.heartbeat(-1 if word == "leave" else 1).given(-1 if word == "leave" else 1)
        elif word == "close" and far == 1:
            at.connection.close()
            closed.add(id(at.connection))
            waiting = [one for one in waiting if one.connection is not at.connection]
    return talk


def asked(word: str, member: Member, due: list[int], who: int, far: int) -> Asked:
    epoch = 0 if word == "open" else due[who] + far % 2
    due[who] = epoch + 1
    return (
        member.share_acknowledge(epoch, [(10 * who, 10 * who + 1, 1)])
        if word == "acknowledge"
        else member.share_fetch(epoch, [0])
    )


def reply(to: Asked, word: str, far: int) -> None:
    if word == "answer":
        answered(to, 10 * far)
    else:
        to.answered(INVALID_SHARE_SESSION_EPOCH)


def tells_all(connection: Seen, packet: int) -> None:
    """Every session that uses the connection, whatever it was told before."""
    for user in connection.users.values():
        user.blind(packet, "cut")
        user.state.member.listed = None


def known(talk: Conversation) -> tuple[list[Finding], list[tuple[object, ...]]]:
    """What is found, and after each event what is known of each session."""
    analyzer = Analyzer()
    found: list[Finding] = []
    sessions: list[tuple[object, ...]] = []
    for event in events(talk):
        found += analyzer.feed(event)
        for session in analyzer._sessions.values():
            state = session.state
            due = None if state.states is None else [one.due for one in state.states]
            sessions.append((due, state.states_known.because, state.last_unread, state.member.listed))
    return found + analyzer.close(), sessions


@given(st.lists(MOVES, min_size=4, max_size=40))
def test_to_be_told_once_is_enough(moves: list[Move]) -> None:
    talk = said(moves)
    once = known(talk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seen, "cannot_read", tells_all)
        assert known(talk) == once


def due(talk: Conversation) -> object:
    """The epochs that the session may expect in the end; None: any."""
    _, sessions = known(talk)
    return sessions[-1][0]


def opened(at: Member) -> Asked:
    return at.share_fetch(0, [0]).answered()


def test_one_behind_an_opening_on_another_connection_is_told_too() -> None:
    talk = Conversation()
    a = talk.member("a")
    opened(a)
    unread(a.connection)
    opened(a.on(talk.connection()))
    assert due(talk) == [1]
    unread(a.connection)
    assert due(talk) is None


def test_one_while_a_pipelined_opening_waits_is_told_too() -> None:
    talk = Conversation()
    a = talk.member("a")
    opened(a)
    b = a.on(talk.connection())
    opened(b)
    first, second = b.share_fetch(1), b.share_fetch(0, [0])
    unread(a.connection)
    first.answered()
    unread(a.connection)
    second.answered()
    assert due(talk) is None


def test_one_on_the_other_side_of_a_proxy_concerns_nobody() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection(host="10.0.0.2"))
    for epoch in range(2):
        outer, inner = a.share_fetch(epoch, [0]), b.share_fetch(epoch, [0])
        for one in (inner, outer):
            answered(one, 10 * epoch)
    unread(a.connection)
    assert due(talk) == [2]


def test_one_behind_the_end_of_a_third_connection_is_told_too() -> None:
    talk = Conversation()
    a = talk.member("a")
    opened(a)
    b, third = a.on(talk.connection()), a.on(talk.connection())
    third.share_fetch(1).answered()
    unread(a.connection)
    third.connection.close()
    opened(b)
    assert due(talk) == [1]
    unread(a.connection)
    assert due(talk) is None


def test_one_on_a_side_that_turned_out_to_be_a_proxys_is_the_last_to_be_told() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection(host="10.0.0.2"))
    outer, inner = a.share_fetch(0, [0]), b.share_fetch(0, [0])
    answered(inner, 0)
    unread(a.connection)
    answered(outer, 0)
    opened(b)
    unread(a.connection)
    assert due(talk) == [1]
