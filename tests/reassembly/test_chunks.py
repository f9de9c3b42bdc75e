"""Any segments, fed in any portions: the same comes out, and every byte of it stands where the sender put it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.model import ACK, FIN, RST, SYN
from tests.examples import as_many
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk

#: What each side would send, if it sent all.
STREAMS = (bytes(range(251)) * 9, bytes(range(250, 0, -1)) * 9)
REACH = 2_000


@st.composite
def moves(draw: st.DrawFn) -> tuple[int, str, int, int, int]:
    """Side, what happens, how far off the due place, how many bytes, how many of the other side's bytes it has not
    got."""
    kind = draw(
        st.sampled_from(
            ["goes on"] * 12
            + ["jumps"] * 3
            + ["again"] * 3
            + ["cut", "fin", "early fin", "rst", "syn", "pause", "other ports", "full"]
        )
    )
    return (
        draw(st.sampled_from((CLIENT, BROKER))),
        kind,
        draw(st.integers(-30, 30)),
        draw(st.integers(0, 25)),
        draw(st.integers(0, 40)),
    )


def performed(acts: list[tuple[int, str, int, int, int]], isn: tuple[int, int], seen_from_begin: bool) -> Talk:  # noqa: C901  # one act a case
    """Segments whose bytes are those of STREAMS at their places."""
    talk = Talk(isn)
    if seen_from_begin:
        talk.open()
    for side, kind, off, size, behind in acts:
        place = talk.sent[side] if kind in ("goes on", "fin", "cut") else max(0, talk.sent[side] + off)
        payload = STREAMS[side][place : place + size] if place < REACH else b""
        acked = max(0, talk.sent[1 - side] - behind) if off > 0 else None
        match kind:
            case "pause":
                talk.pause(off / 10 if off > 0 else 0.3)
            case "again":
                if talk.rows:
                    talk.rows.append(
                        replace(
                            talk.rows[-1 - abs(off) % len(talk.rows)], packet=len(talk.rows) + 1, time_ns=talk.time_ns
                        )
                    )
            case "full":
                talk.send(side, acked=acked, window=0)
            case "other ports":
                talk.pair = 1 - talk.pair
            case "rst":
                talk.send(side, at=place, acked=acked, flags=RST)
            case "syn":
                talk.send(side, at=-1 if off < 20 else off, flags=SYN | (ACK if off % 2 else 0))
            case "early fin":  # bytes before it are missing
                talk.send(side, at=place, acked=acked, flags=FIN | ACK)
            case "fin":
                talk.send(side, payload, at=place, acked=acked, flags=FIN | ACK)
                talk.sent[side] = place + len(payload)  # others may go on there: the FIN was nobody's
            case _:
                cut = min(5, len(payload)) if kind == "cut" else 0
                talk.send(side, payload[: len(payload) - cut], at=place, acked=acked, missing=cut)
    return talk


ACTS = st.lists(moves(), min_size=1, max_size=60)
NUMBERS = st.sampled_from([(1_000, 5_000), (0xFFFFFFF0, 0xFFFFFFFE), (0x7FFFFFF0, 0)])


@settings(max_examples=as_many(120))
@given(ACTS, NUMBERS, st.booleans(), st.lists(st.integers(1, 30), max_size=12))
def test_however_segments_are_fed_the_same_comes_out(
    acts: list[tuple[int, str, int, int, int]], isn: tuple[int, int], seen_from_begin: bool, sizes: list[int]
) -> None:
    talk = performed(acts, isn, seen_from_begin)
    expected = talk.fed([], exact=True).comparable()
    assert talk.fed([]).comparable() == expected
    assert talk.fed(sizes).comparable() == expected
    assert talk.fed(sizes, exact=True).comparable() == expected


@settings(max_examples=as_many(60))
@given(st.lists(moves().filter(lambda move: move[1] not in ("syn", "other ports")), min_size=1, max_size=60), NUMBERS)
def test_every_byte_stands_where_the_sender_put_it(
    acts: list[tuple[int, str, int, int, int]], isn: tuple[int, int]
) -> None:
    heard = performed(acts, isn, seen_from_begin=True).fed([])
    for side in (CLIENT, BROKER):
        place = 0
        for part in heard.of(side):
            if isinstance(part, Hole):
                place += part.size
            else:
                assert part == STREAMS[side][place : place + len(part)]
                place += len(part)
        heard_bytes = sum(len(part) for part in heard.of(side) if isinstance(part, bytes))
        assert heard_bytes == heard.flows[0].stream_bytes[side]
