"""TCP connections as the judgement sees them: when they were used, what is missing of them, how they ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kshark.analysis.facts.brokers import Broker, Brokers, By, End
from kshark.analysis.facts.connections import ConnectionFacts, Connections, PacketOrder
from kshark.analysis.facts.holes import Hole
from kshark.model import Closed, Ends, Flow, Gap, HalfClosed
from tests.analysis.plain import BROKER, MS, connection, end, flow

CLIENT, SERVER = 0, 1


def half(of: Flow, packet: int, side: int) -> HalfClosed:
    return HalfClosed(of, packet, packet * MS, side)  # type: ignore[arg-type]


def closed(of: Flow, packet: int, how: str, side: int | None = None) -> Closed:
    return Closed(of, packet, packet * MS, how, side)  # type: ignore[arg-type]


def gap(of: Flow, first: int, last: int, reason: str = "missing") -> Gap:
    return Gap(of, 0, last, last * MS, first, last, 1, reason)  # type: ignore[arg-type]


def used(known: Connections, *numbers: int) -> list[ConnectionFacts]:
    """Connections whose first request was seen."""
    made = [known.of(flow(number, f"10.0.0.{number + 1}:50000")) for number in numbers]
    for each in made:
        known.begin(each)
    return made


@pytest.fixture
def known() -> Connections:
    return Connections(Brokers(), PacketOrder())


def test_whose_it_is() -> None:
    each = connection(client="[fe80::1]:50000")
    assert (each.client, each.host, each.flow.software) == ("[fe80::1]:50000", "[fe80::1]", None)
    each.flow.software_name, each.flow.software_version = "librdkafka", "2.5"
    assert each.flow.software == "librdkafka 2.5"
    each.flow.software_version = None
    assert each.flow.software == "librdkafka"


def test_the_first_of_its_ends_between_two_packets() -> None:
    each = connection()
    assert each.end is None
    each.ends = [end(10, "client"), end(20, "broker")]
    assert each.end == end(10, "client")
    between = [
        each.ended_between(first, last) for first, last in ((1, 9), (1, 10), (9, 30), (10, 19), (10, 20), (20, 30))
    ]
    assert [found and found.packet for found in between] == [None, 10, 10, None, 20, None]


def test_requests_and_a_fin_of_the_client_show_that_it_is_open() -> None:
    each = connection()
    assert each.is_used_after(10) is None
    each.last_request, each.client_fin = 10, 10
    assert each.is_used_after(10) is None
    assert each.is_used_after(9) is True
    each.over_at = 50
    assert each.is_used_after(10) is False
    each.client_fin = 11
    assert each.is_used_after(10) is True


def test_a_connection_is_known_by_its_flow(known: Connections) -> None:
    (each,) = used(known, 0)
    assert known.of(each.flow) is each
    assert known.of(flow(1)) is not each
    assert each.broker is not None
    assert each.broker.addresses == [BROKER]
    assert each.broker.open == {0}


def test_holes_before_the_first_request_are_its_brokers_too(known: Connections) -> None:
    each = known.of(flow())
    known.lost(gap(each.flow, 3, 7, "snapped"))
    known.begin(each)
    known.lost(gap(each.flow, 13, 17))
    assert each.holes == [Hole(3, 7, "cut"), Hole(13, 17, "gap")]
    assert each.broker is not None
    assert each.broker.holes == {"10.0.0.1": each.holes}


def test_either_end_may_be_the_broker_before_the_first_request_of_a_connection_whose_beginning_nobody_saw(
    known: Connections,
) -> None:
    """That the flow names the wrong one until then is over with it; the broker was told of its holes as soon as it was
    known as one."""
    each = known.of(Flow(7, Ends(BROKER, "10.0.1.1:50000"), 1, 0))
    known.lost(gap(each.flow, 3, 7))
    (other,) = used(known, 0)
    known.lost(gap(each.flow, 13, 17))
    assert other.broker is not None
    assert other.broker.holes == {"10.0.1.1": [Hole(13, 17, "gap")]}
    each.flow.client_side = 1
    known.begin(each)
    assert (each.broker, each.host) == (other.broker, "10.0.1.1")
    assert sorted(other.broker.holes["10.0.1.1"], key=lambda hole: hole.first_packet) == each.holes


def test_who_ended_before_the_first_request_is_not_asked(known: Connections) -> None:
    """A broker said all it had to say; that it is one, only a request tells."""
    each = known.of(Flow(7, Ends(BROKER, "10.0.1.1:50000"), 1, 0))
    known.ended(half(each.flow, 5, 0))
    each.flow.client_side = 1
    known.begin(each)
    assert (each.end, each.client_fin) == (End(5, 5 * MS, "unknown", 7), None)


def test_an_answer_without_its_request_is_a_hole(known: Connections) -> None:
    each = known.of(flow())
    each.last_request = 5
    answer: Any = SimpleNamespace(packet=9)
    known.orphan(each.flow, answer)
    known.orphan(each.flow, None)
    assert each.holes == [Hole(5, 9, "gap")]


def test_an_answer_shows_that_a_broker_is_up(known: Connections) -> None:
    one, two = used(known, 0, 1)
    assert one.broker is not None
    one.broker.refused(end(1, "broker"))
    two.ends.append(end(1, "broker"))
    known.answered(7)
    known.answered(1)
    assert one.broker.down == {one.broker}
    known.answered(0)
    assert one.broker.down == set()


def test_connections_of_a_broker_that_is_another_one_too(known: Connections) -> None:
    (one,) = used(known, 0)
    other, kept = connection(1, broker=Broker(["x"])), Broker(["y"])
    known.by_flow[1] = other
    assert one.broker is not None
    known.joined(kept, one.broker)
    assert one.broker is kept
    assert other.broker is not kept


# -- ends


def test_a_client_closes(known: Connections) -> None:
    (each,) = used(known, 0)
    assert known.ended(half(each.flow, 10, CLIENT)) == (each, True)
    assert (each.client_fin, each.over, each.ends) == (10, False, [end(10, "client")])
    assert each.broker is not None
    assert (each.broker.open, list(each.broker.closed)) == (set(), [end(10, "client")])
    assert known.ended(closed(each.flow, 12, "fin", CLIENT)) == (each, False)
    assert (each.client_fin, each.over, each.ends) == (10, True, [end(10, "client"), end(12, "broker")])
    assert list(each.broker.closed) == [end(10, "client")]
    assert known.by_flow == {}


def test_a_broker_closes(known: Connections) -> None:
    (each,) = used(known, 0)
    known.ended(half(each.flow, 10, SERVER))
    assert (each.client_fin, each.ends) == (None, [end(10, "broker")])
    known.ended(closed(each.flow, 12, "fin", SERVER))
    assert (each.client_fin, each.ends) == (12, [end(10, "broker"), end(12, "client")])


@pytest.mark.parametrize(
    ("how", "side", "by"),
    [("rst", 0, "client"), ("rst", 1, "broker"), ("reused", None, "unknown"), ("fin", 0, "client")],
)
def test_all_at_once(known: Connections, how: str, side: int | None, by: By) -> None:
    (each,) = used(known, 0)
    assert known.ended(closed(each.flow, 10, how, side)) == (each, True)
    assert (each.over, each.ends) == (True, [end(10, by)])
    assert each.client_fin == (10 if how == "fin" else None)


def test_a_reset_behind_a_fin(known: Connections) -> None:
    (each,) = used(known, 0)
    known.ended(half(each.flow, 10, SERVER))
    known.ended(closed(each.flow, 12, "rst", SERVER))
    assert (each.client_fin, each.ends) == (None, [end(10, "broker"), end(12, "broker")])


def test_the_capture_ends(known: Connections) -> None:
    (each,) = used(known, 0)
    assert known.ended(closed(each.flow, 10, "capture")) == (each, False)
    assert (each.over, each.ends, each.holes, known.by_flow) == (True, [], [], {})
    assert each.broker is not None
    assert each.broker.open == set()


def test_what_becomes_of_a_forgotten_connection_is_not_seen(known: Connections) -> None:
    (each,) = used(known, 0)
    assert known.ended(closed(each.flow, 10, "forgotten")) == (each, False)
    assert each.ends == []
    assert each.holes.between(11, 1_000_000_000) == "limit"
    assert each.holes.between(1, 10) is None


def test_a_connection_that_ended_before_its_first_request_is_not_open(known: Connections) -> None:
    each = known.of(flow())
    known.ended(half(each.flow, 10, CLIENT))
    known.begin(each)
    assert each.broker is not None
    assert each.broker.open == set()


def test_a_syn_answered_by_a_reset_is_refused(known: Connections) -> None:
    (each,) = used(known, 0)
    assert each.broker is not None
    known.ended(closed(flow(1), 10, "rst", SERVER))
    assert [restart.end for restart in each.broker.restarts] == [End(10, 10 * MS, "broker", 1)]


def test_what_is_no_refusal(known: Connections) -> None:
    (each,) = used(known, 0)
    talked, headless, elsewhere = flow(1), flow(2), flow(3, broker="10.0.0.8:9092")
    talked.stream_bytes[0], headless.opened_by = 1, None
    for event in (
        closed(talked, 10, "rst", SERVER),
        closed(headless, 10, "rst", SERVER),
        closed(elsewhere, 10, "rst", SERVER),
    ):
        known.ended(event)
    known.ended(closed(flow(4), 10, "rst", CLIENT))
    known.ended(closed(flow(5), 10, "fin", SERVER))
    assert each.broker is not None
    assert each.broker.restarts == []
