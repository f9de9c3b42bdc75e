"""Sequence numbers have 32 bits wherever a connection keeps one, and an acknowledgement that comes late takes nothing
back."""

from __future__ import annotations

import pytest

from kshark.model import Gap
from kshark.reassembly import Reassembly
from kshark.reassembly.fast_path import FastPath
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk, columns

#: Numbers of the SYNs: the end of the numbers lies in the handshake, in the data, and behind a hole.
ISNS = [(0xFFFFFFFF, 0xFFFFFFFE), (0xFFFFFFFE, 0xFFFFFFF0), (0xFFFFFFF3, 0xFFFFFFFF), (0xFFFFFFD0, 0xFFFFFFC0)]


def in_order(talk: Talk) -> Talk:
    for number in range(10):
        talk.client(b"%05d" % number)
        talk.broker(b"answer")
    return talk


def disturbed(talk: Talk) -> Talk:
    """A piece that is never seen and one that comes late, bytes cut by the snap length, a FIN."""
    for position in (0, 10, 20, 30, 25):
        talk.client(b"piece", at=position)
        talk.broker(b"answer")
    talk.client(b"en", at=35, missing=3)
    talk.fin(CLIENT, b"the last bytes that it sends", at=40)
    return talk


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("size", [1, 9, 99])
@pytest.mark.parametrize("isn", ISNS, ids=str)
@pytest.mark.parametrize("told", [in_order, disturbed])
def test_every_number_that_is_kept_has_32_bits(told, isn: tuple[int, int], size: int, exact: bool) -> None:
    rows = told(Talk(isn).open()).rows
    stage = Reassembly(exact=exact)
    for at in range(0, len(rows), size):
        stage.feed(columns(rows[at : at + size]))
        for side in (side for connection in stage._connections.values() for side in connection.sides):
            assert all(
                number is None or 0 <= number < 1 << 32 for number in (side.next, side.fin, side.isn, side.acked)
            )
    broker = stage._connections[0].sides[BROKER]
    assert broker.next == (isn[BROKER] + 1 + broker.position) % (1 << 32)


def test_a_direction_whose_numbers_go_around_is_still_in_order() -> None:
    """Also its acknowledgements: the short way takes it whole."""
    talk = in_order(Talk((0xFFFFFFF0, 0xFFFFFFE0)).open())
    stretches = FastPath(columns(talk.rows[3:]), {0}).stretches()
    assert stretches is not None
    assert (stretches.seq, stretches.due) == (
        [0xFFFFFFF1, 0xFFFFFFE1],
        [0xFFFFFFF1 + 50 - (1 << 32), 0xFFFFFFE1 + 60 - (1 << 32)],
    )


# -- acknowledgements


def unfilled(talk: Talk) -> list[bytes | Hole]:
    """The client's stream when it goes on behind a hole and all is quiet for two seconds; in two feeds, the hole in the
    second."""
    before = len(talk.rows)
    talk.client(b"def", at=talk.sent[CLIENT] + 3, acked=talk.sent[BROKER])
    talk.pause(2)
    talk.client(b"ghi")
    talk.client(b"abc", at=talk.sent[CLIENT] - 9)
    assert talk.fed([before]).comparable() == talk.fed([], exact=True).comparable()
    return talk.fed([before]).client


def test_the_highest_acknowledgement_counts_where_a_later_packet_has_a_lower_one() -> None:
    """The broker has acknowledged three bytes that the capture lacks, then came a packet that it had sent before."""
    for quiet in (0, 1, 12):  # segments in order before: none, too few for the short way, enough
        talk = Talk().open()
        for _ in range(quiet):
            talk.client(b"x")
        here = talk.sent[CLIENT]
        talk.broker(b"1", acked=here + 3)
        talk.broker(b"2", acked=here)
        assert unfilled(talk)[-2:] == [Hole(3, "missing"), b"defghi"], quiet


def test_a_lower_acknowledgement_in_a_later_batch_takes_nothing_back() -> None:
    talk = Talk().open()
    talk.broker(b"1" * 9, acked=3)
    first = len(talk.rows)
    for _ in range(12):
        talk.broker(b"2", acked=0)
    second = len(talk.rows)
    talk.client(b"def", at=3)
    talk.pause(2)
    talk.client(b"ghi")
    talk.client(b"abc", at=0)
    heard = talk.fed([first, second - first])
    assert heard.comparable() == talk.fed([], exact=True).comparable()
    assert heard.client == [Hole(3, "missing"), b"defghi"]


def test_a_hole_that_is_acknowledged_to_its_last_byte_is_known_to_have_arrived() -> None:
    talk = Talk().open()
    talk.client(b"def", at=3)
    talk.broker(acked=3)
    talk.pause(2)
    talk.client(b"ghi")
    talk.client(b"abc", at=0)
    heard = talk.heard()
    assert heard.client == [Hole(3, "missing"), b"defghi"]
    (gap,) = [part for part in heard.streams[0, CLIENT] if isinstance(part, Gap)]
    assert (gap.first_packet, gap.last_packet) == (1, 4)
