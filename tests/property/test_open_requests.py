"""Which request an answer belongs to, beside a plain reading of the rule: the oldest open one with its correlation
id."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kshark.model import Exchange, Message
from tests.exchange.test_stage import Talk, answer, codes, metadata

#: Who speaks, and with which correlation id.
Turns = list[tuple[bool, int]]

Told = list[tuple[str, int | None, int | None]]


def plainly(turns: Turns) -> tuple[Told, list[list[str]]]:
    """What becomes of the requests, by packet, and the weirds of each message."""
    waiting: list[tuple[int, int]] = []
    told: Told = []
    weird: list[list[str]] = []
    for packet, (asks, number) in enumerate(turns, start=4):
        place = next((at for at, request in enumerate(waiting) if request[0] == number), None)
        if asks:
            weird.append([] if place is None else ["CORRELATION_ID_REUSED"])
            waiting.append((number, packet))
        elif place is None:
            weird.append(["RESPONSE_UNMATCHED"])
            told.append(("orphan", None, packet))
        else:
            weird.append(["RESPONSE_OUT_OF_ORDER"] if place else [])
            told.append(("answered", waiting.pop(place)[1], packet))
    return [*told, *(("unanswered", packet, None) for _, packet in waiting)], weird


@example([(True, 5), (True, 4), (False, 4), (True, 4), (False, 4), (False, 5)])
@example([(True, 5), (True, 4), (False, 5), (False, 4), (True, 9), (True, 9), (False, 9), (False, 9)])
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=120))
def test_an_answer_belongs_to_the_oldest_open_request_with_its_id(turns: Turns) -> None:
    talk = Talk()
    turns = [(True, 0), (False, 0), *turns]  # the connection is known to be Kafka's
    for asks, number in turns:
        say, what = (talk.tcp.client, metadata) if asks else (talk.tcp.broker, answer)
        (_,) = say(what(number))
    events = talk.events()
    exchanges = [event for event in events if isinstance(event, Exchange)]
    told = [(it.outcome, it.request and it.request.packet, it.response and it.response.packet) for it in exchanges]
    weird = [codes(event) for event in events if isinstance(event, Message)]
    assert (told, weird) == plainly(turns)
