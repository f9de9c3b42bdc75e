"""Records that are delivered again for a reason on another host: without that host nobody is at fault.

A leader forgets acquisitions when it reads the state again: after it moved away and back, after the share coordinator
fenced one of its Writes, after start offsets were set anew.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.analysis.coordinators import ACCEPTED, Sender
from tests.analysis.rules.promises.acknowledgements import ACCEPT, refused
from tests.analysis.rules.promises.deliveries import continue_session, given
from tests.analysis.talks import alone, codes, led_elsewhere, metadata
from tests.conversation import BROKER, Conversation, Member
from tests.packets import batch
from tests.shared import shared
from tests.thinning import Whole, added, findings_of, hosts_and_connections

OTHER, LEADER = "10.0.0.8:9092", "10.0.0.9"


def fenced(talk: Conversation) -> None:
    """Another member's acknowledgement is refused with FENCED_STATE_EPOCH."""
    c = talk.member("c", connection=talk.connection(host="10.0.0.3"))
    given(c, 0, (50, 59, 1))
    refused(c, 1, (50, 59, ACCEPT), error=124)


def moved(talk: Conversation) -> None:
    """Another member learns that another broker leads the partition; it leads it for a while."""
    c = talk.member("c", connection=talk.connection(host="10.0.0.3"))
    c.share_fetch(0, [0]).answered(**led_elsewhere())
    there = c.on(talk.connection(OTHER, host="10.0.0.3"))
    given(there, 0, (0, 9, 1))
    there.share_acknowledge(1, [(0, 9, 2)]).answered()


def read_again(talk: Conversation) -> None:
    """The leader reads the state again from the share coordinator."""
    Sender(talk.connection(OTHER, host=LEADER)).read(1).given(0)


def set_anew(talk: Conversation) -> None:
    """The group coordinator stores new start offsets."""
    Sender(talk.connection(OTHER, host="10.0.0.7")).initialize(5, 0).accepted()


WHYS = [fenced, moved, read_again, set_anew]


def early(a: Member, b: Member, count: int) -> None:
    given(a, 1, (0, 9, count))


def overlapping(a: Member, b: Member, count: int) -> None:
    given(b, 0, (0, 9, count))


def uncounted(a: Member, b: Member, count: int) -> None:
    """The lock had expired, and the leader had not stored that."""
    a.connection.talk.pause(40)
    given(b, 0, (0, 9, count))


def talk_of(why: Callable[[Conversation], None], how: Callable[..., None], count: int) -> Conversation:
    talk = Conversation()
    a = talk.member("a", connection=talk.connection(host="10.0.0.1"))
    b = talk.member("b", connection=talk.connection(host="10.0.0.2"))
    given(a, 0, (0, 9, 1))
    why(talk)
    how(a, b, count)
    for epoch in range(2 if how is early else 1, 4):
        continue_session(a, epoch)
    continue_session(b, 1)
    return talk


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("how", [early, overlapping, uncounted], ids=lambda how: how.__name__)
@pytest.mark.parametrize("why", WHYS, ids=lambda why: why.__name__)
def test_no_missing_host_accuses_the_broker(
    why: Callable[[Conversation], None], how: Callable[..., None], count: int
) -> None:
    talk = talk_of(why, how, count)
    whole = Whole.of([batch([packet for _, packet in talk.packets()])])
    known = findings_of(whole, whole.everything())
    assert [
        (words, finding.code)
        for words, keep in hosts_and_connections(whole)
        for finding in added(known, findings_of(whole, keep))
    ] == []


# -- what proves that the leader kept its state


def again(talk: Conversation, broker: Sender | None = None, *, beats: bool = True) -> list[tuple[str, str]]:
    a = talk.member("a", joined=beats)
    if broker is not None:
        broker.read().given(0)
    given(a, 0, (0, 9, 1))
    given(a, 1, (0, 9, 2))
    if broker is not None:
        broker.write(0, (10, 10, ACCEPTED, 1)).accepted()
    continue_session(a, 2)
    return codes(talk)


def test_a_broker_that_is_alone_keeps_it_while_its_group_has_members() -> None:
    assert again(alone()) == [("EARLY_REDELIVERY", "violation")]
    assert again(alone(), beats=False) == [("EARLY_REDELIVERY", "unknown")]


def test_one_of_several_brokers_may_have_lost_it() -> None:
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER, 2: OTHER})
    assert again(talk) == [("EARLY_REDELIVERY", "unknown")]


def test_a_leader_that_stores_it_before_and_afterwards_has_kept_it() -> None:
    talk = Conversation()
    assert again(talk, Sender(talk.connection(OTHER, host=LEADER)), beats=False) == [("EARLY_REDELIVERY", "violation")]


def test_a_leader_that_is_not_seen_afterwards_may_have_lost_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    Sender(talk.connection(OTHER, host=LEADER)).read().given(0)
    given(a, 0, (0, 9, 1))
    given(a, 1, (0, 9, 2))
    continue_session(a, 2)
    assert codes(talk) == [("EARLY_REDELIVERY", "unknown")]


def test_a_member_that_left_may_have_left_an_empty_group() -> None:
    """Then somebody may set the start offset to before the accepted records."""
    for leaves in (False, True):
        talk = alone()
        a = talk.member("a")
        given(a, 0, (0, 9, 1))
        a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
        if leaves:
            a.heartbeat(-1).given(-1)
            a.join()
        given(a, 2, (0, 4, 1))
        continue_session(a, 3)
        verdict = "unknown" if leaves else "violation"
        assert ("REDELIVERY_AFTER_TERMINAL", verdict) in codes(talk)


def test_what_a_leader_has_stored_outlives_it() -> None:
    """Accepted records stay accepted when the leader moves."""
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER, 2: OTHER})
    a = talk.member("a")
    given(a, 0, (0, 9, 1))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    given(a, 2, (0, 4, 1))
    continue_session(a, 3)
    assert codes(talk) == [("REDELIVERY_AFTER_TERMINAL", "violation")]


@pytest.mark.parametrize("name", ["fair-partition-fenced", "fair-coordinator-elsewhere-fenced", "two-clusters"])
def test_a_capture_without_one_of_its_hosts(name: str) -> None:
    whole = Whole.load(shared("captures", "field", f"{name}.pcap"))
    for words, keep in hosts_and_connections(whole):
        assert [it for it in findings_of(whole, keep) if it.verdict == "violation"] == [], words
