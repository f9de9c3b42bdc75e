"""The start offset that is shown for a share partition, and what shows it."""

from __future__ import annotations

from kshark.analysis import ShownStart
from tests.analysis.coordinators import Sender
from tests.analysis.rules.promises.acknowledgements import ACCEPT
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.talks import left_in_flight
from tests.conversation import Asked, Conversation


def shown(talk: Conversation) -> ShownStart:
    state = left_in_flight(talk)
    return ShownStart(state.start_offset, state.start_source, state.start_packet, state.start_least)


def read(talk: Conversation, start: int) -> tuple[Sender, Asked]:
    sender = Sender(talk.connection())
    return sender, sender.read().given(start)


def test_without_the_leaders_state_it_is_unknown() -> None:
    talk = Conversation()
    given(talk.member("a"), 0, (0, 9, 1))
    assert shown(talk) == ShownStart(None, None, None, None)


def test_the_leader_has_read_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    _, step = read(talk, 5)
    given(a, 0, (5, 9, 1))
    assert shown(talk) == ShownStart(5, "stored", step.packet, 5)


def test_records_that_end_advance_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    _, step = read(talk, 5)
    given(a, 0, (5, 9, 1))
    a.share_acknowledge(1, [(5, 7, ACCEPT)]).answered()
    assert shown(talk) == ShownStart(8, "seen", step.packet, 5 + 3)


def test_a_leader_passes_over_aborted_transactions() -> None:
    """Seen on 4.4.0 with read_committed: 4 to 6 were aborted, and the next Write has start offset 11."""
    talk = Conversation()
    a = talk.member("a")
    sender, step = read(talk, 0)
    given(a, 0, (0, 3, 1), (7, 10, 1))
    a.share_acknowledge(1, [(0, 3, ACCEPT), (7, 10, ACCEPT)]).answered()
    assert shown(talk) == ShownStart(None, "passed_over", step.packet, 4)
    write = sender.write(11).accepted()
    assert shown(talk) == ShownStart(11, "stored", write.packet, 11)
