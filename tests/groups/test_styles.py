"""How members acknowledge, inferred from what they do."""

from __future__ import annotations

import pytest

from tests.analysis.talks import handed
from tests.conversation import Conversation
from tests.groups.talks import member, style

GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3


@pytest.mark.parametrize(
    ("acks", "told", "because"),
    [
        ([(0, 9, ACCEPT)], "implicit", "accepted 10, all it held at once each time"),
        ([(0, 4, ACCEPT), (5, 5, GAP), (6, 9, ACCEPT)], "implicit", "accepted 9, all it held at once each time"),
        ([(0, 8, ACCEPT), (9, 9, REJECT)], "explicit", "rejected 1"),
        ([(0, 8, ACCEPT), (9, 9, RELEASE)], "explicit", "released 1"),
        ([(5, 9, ACCEPT)], "explicit", "left earlier records for later ×1"),
        ([(0, 4, ACCEPT)], None, "accepted 5, in order"),
        ([], None, "acknowledged nothing"),
    ],
)
def test_what_is_acknowledged_tells(acks: list[tuple[int, int, int]], told: str | None, because: str) -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(1, [0], acks=acks).answered()
    assert style(member(talk)) == (told, because)


def test_what_a_final_epoch_releases_was_not_chosen() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_fetch(1, [0], acks=[(0, 9, ACCEPT)]).answered(responses=handed((0, 10, 19)))
    a.share_fetch(-1, [0], acks=[(10, 19, RELEASE)]).answered()
    assert style(member(talk)) == ("implicit", "accepted 10, all it held at once each time")


def test_renewing_is_explicit() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 9, 4)], version=2, renew=True).answered()
    assert style(member(talk)) == ("explicit", "renewed 10")
