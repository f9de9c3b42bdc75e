"""Acknowledgements that are refused: what is nearly somebody's fault, and what the capture has to hold for that."""

from __future__ import annotations

import pytest

from tests.analysis.rules.promises.acknowledgements import ACCEPT, REJECT, RELEASE, RENEW, holding, refused
from tests.analysis.rules.promises.deliveries import given
from tests.conversation import Asked, Conversation, Thinned, findings


def handed_out_twice(*kinds: int, release: str = "4.2") -> tuple[Conversation, Asked]:
    """An application is slow: when it acknowledges what it was handed, its member has got the same again, and
    acknowledges that, too."""
    talk = Conversation(release=release)
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    given(a, 1, (0, 9, 2))
    for epoch, kind in enumerate(kinds, 2):
        a.share_acknowledge(epoch, [(0, 9, kind)], version=2, renew=kind == RENEW).answered()
    return talk, refused(a, 2 + len(kinds), (0, 9, ACCEPT))


def said_of(talk: Conversation | Thinned, asked: Asked) -> list[tuple[str, str, str | None]]:
    return [(one.code, one.verdict, one.cause) for one in findings(talk) if one.packet == asked.packet]


@pytest.mark.parametrize("kinds", [[ACCEPT], [REJECT], [RELEASE], [RENEW, ACCEPT]])
def test_each_of_two_deliveries_is_acknowledged_once(kinds: list[int]) -> None:
    """Seen of Kafka's client 4.2.1: it keeps for its application what it was handed, be the lock out or not."""
    talk, asked = handed_out_twice(*kinds)
    assert said_of(talk, asked) == [("ACK_AFTER_LOCK_TIMEOUT", "note", "after_lock")]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_without_the_first_delivery_the_count_tells_of_it(kind: int, release: str) -> None:
    talk, asked = handed_out_twice(kind, release=release)
    first = next(one for one in talk.exchanges if one.api == "ShareFetch")
    assert said_of(talk.without_packets(first.all_packets), asked) == [("ACK_REFUSED", "unknown", "unknown")]


def test_others_may_have_had_them_twice_since_the_lock_was_out() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    for count, name in ((2, "b"), (3, "c")):
        talk.pause(3)
        given(talk.member(name), 0, (0, 9, count), lock_ms=2000)
    assert said_of(talk, refused(a, 1, (0, 9, ACCEPT))) == [("ACK_AFTER_LOCK_TIMEOUT", "note", "after_lock")]


def test_whose_first_delivery_it_was_acknowledges_once() -> None:
    """Somebody else had them before."""
    talk = Conversation()
    b = holding(talk, (0, 9), name="b", lock_ms=2000)
    talk.pause(3)
    a = talk.member("a")
    given(a, 0, (0, 9, 2))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    b.share_fetch(1).answered()
    assert said_of(talk, refused(a, 2, (0, 9, ACCEPT))) == [("DOUBLE_ACK", "violation", "twice")]
