"""What packets say of the network, in conversations."""

from __future__ import annotations

from random import Random

import pytest

from kshark import limits
from kshark.flows import ListedTimes
from kshark.model import ACK, SYN
from tests.flows.talk import BROKER, CLIENT, MS, Talk, counted
from tests.packets import START_NS, Wire, tcp_packet


def test_a_plain_connection() -> None:
    flow = (
        Talk()
        .opened(rtt=2)
        .request(3, 0)
        .acked(5, 100)
        .answer(9, 0, 100, 300)
        .request(9, 100, 0, ack=300)
        .closed(10, 100, 300)
        .listed
    )
    assert (flow.client, flow.broker, flow.answered, flow.handshake_ns) == (CLIENT, BROKER, True, 2 * MS)
    assert (flow.ended, flow.ended_by, flow.duration_ns) == ("fin", "client", 10 * MS)
    assert [(side.packets, side.data_packets, side.bytes) for side in flow.sides] == [(6, 1, 100), (4, 1, 300)]
    assert flow.from_client.round_trips_ns == ListedTimes(1, 2 * MS, 2 * MS, 2 * MS)
    assert (flow.again, flow.captured_twice) == (0, False)


def test_what_was_lost_behind_the_capture_is_seen_twice() -> None:
    flow = Talk().opened().request(2, 0).request(210, 0).acked(211, 100).listed
    assert (flow.from_client.retransmissions, flow.from_client.retransmitted_bytes) == (1, 100)
    assert flow.from_client.round_trips_ns is None, "nobody knows which of the two was acknowledged"


def test_the_last_bytes_again_before_any_timeout_ask_whether_they_came() -> None:
    """RFC 8985: also where the acknowledgement is only delayed."""
    flow = Talk().opened().request(2, 0).request(15, 0).acked(42, 100).listed
    assert (flow.from_client.retransmissions, flow.from_client.tail_probes) == (0, 1)


def test_what_was_acknowledged_and_comes_again_was_not_lost() -> None:
    flow = Talk().opened().request(2, 0).acked(3, 100).request(300, 0).listed
    assert (flow.from_client.retransmissions, flow.from_client.spurious_retransmissions) == (0, 1)


def test_what_was_lost_before_the_capture_comes_late() -> None:
    flow = Talk().opened().request(2, 100).acked(2.5, 0).request(202, 0).acked(203, 200).listed
    assert (flow.from_client.retransmissions, flow.from_client.out_of_order) == (1, 0)


def test_what_was_overtaken_comes_soon() -> None:
    flow = Talk().opened().request(2, 100).request(2.4, 0).acked(3, 200).listed
    assert (flow.from_client.retransmissions, flow.from_client.out_of_order) == (0, 1)


def test_sooner_than_a_round_trip_nobody_sends_again() -> None:
    """The packet was captured twice."""
    flow = Talk().opened(rtt=5).request(6, 0).request(6.2, 0).acked(11, 100).listed
    assert (flow.from_client.retransmissions, flow.from_client.copies) == (0, 1)


def test_a_connection_that_was_captured_twice_accuses_nobody() -> None:
    """The clocks of both captures differ by more than a round trip."""
    talk = Talk().opened()
    for number in range(20):
        talk.request(10 * number + 2, 100 * number, ack=100 * number).answer(
            10 * number + 4, 100 * number, 100 * number + 100
        )
    again = [type(packet)(packet.time_ns + 5 * MS, packet.data, packet.wire_length) for packet in talk.wire.packets]
    (flow,), found = counted(sorted([*talk.wire.packets, *again], key=lambda packet: packet.time_ns))
    assert flow.captured_twice
    assert (flow.again, found.retransmissions, found.verdict) == (0, 0, "unknown")


def test_a_connection_that_begins_before_the_capture_may_begin_out_of_order() -> None:
    flow = Talk().request(0, 100).request(0.5, 0).request(1, 200).listed
    assert (flow.from_client.out_of_order, flow.from_client.retransmissions, flow.handshake_ns, flow.answered) == (
        1,
        0,
        None,
        None,
    )


def test_a_window_of_zero_lasts_until_it_opens() -> None:
    talk = (
        Talk()
        .opened()
        .request(2, 0)
        .acked(3, 100, window=0)
        .send(203, 0, 99, 0)
        .acked(204, 100, window=0)
        .acked(503, 100, window=500)
    )
    flow = talk.listed
    assert (flow.from_broker.zero_windows, flow.from_broker.zero_window_ns) == (2, 500 * MS)
    assert (flow.from_client.keep_alives, flow.again) == (1, 0)


def test_duplicate_acknowledgements() -> None:
    """Only where something is due: the other side says the same when it has nothing else to say."""
    talk = Talk().opened().request(2, 0).acked(3, 100).acked(4, 100)
    assert talk.listed.from_broker.duplicate_acks == 0
    talk.request(5, 200).acked(6, 100).request(7, 300).acked(8, 100)
    assert talk.listed.from_broker.duplicate_acks == 2


def test_a_syn_that_has_to_be_said_twice() -> None:
    talk = (
        Talk()
        .send(0, 0, -1, 0, flags=SYN)
        .send(1000, 0, -1, 0, flags=SYN)
        .send(1001, 1, -1, 0, flags=SYN | ACK)
        .send(1001, 0, 0, 0)
    )
    flow = talk.listed
    assert (flow.from_client.syn_retransmissions, flow.answered, flow.again) == (1, True, 1)
    assert flow.handshake_ns is None, "nobody knows which of the two was answered"


def test_nobody_there() -> None:
    talk = Talk().send(0, 0, -1, 0, flags=SYN).send(1000, 0, -1, 0, flags=SYN).send(3000, 0, -1, 0, flags=SYN)
    flow, found = talk.listed, talk.counted[1]
    assert (flow.answered, flow.refused, flow.ended) == (False, False, "open")
    assert (found.unanswered, found.refused) == (1, 0)


def test_nobody_listens() -> None:
    talk = Talk().send(0, 0, -1, 0, flags=SYN).reset(1, 1, -1, 0)
    assert talk.listed.refused
    assert (talk.counted[1].unanswered, talk.counted[1].refused) == (0, 1)


def test_the_answer_to_the_syn_need_not_be_in_the_capture() -> None:
    flow = Talk().send(0, 0, -1, 0, flags=SYN).send(4, 0, 0, 0).request(5, 0).listed
    assert (flow.answered, flow.handshake_ns) == (True, 4 * MS)


def test_numbers_go_around() -> None:
    talk = Talk()
    for at, seq in enumerate((2**32 - 1151, 2**32 - 1051, 2**32 - 1051, 49)):
        talk.request(at * 10, seq)
    flow = talk.listed
    assert (flow.from_client.tail_probes, flow.from_client.data_packets) == (1, 4)


def test_a_port_that_is_used_again_is_another_connection() -> None:
    talk = Talk().opened().request(2, 0).closed(4, 100)
    later = Talk(wire=talk.wire, begin_ns=START_NS + 9_000 * MS)
    later.wire.packets.append(tcp_packet(CLIENT, BROKER, 77_000, 0, SYN, time_ns=START_NS + 9_000 * MS))
    flows, _ = later.counted
    assert sorted((flow.flow, flow.from_client.packets, flow.ended) for flow in flows) == [
        (0, 5, "fin"),
        (1, 1, "open"),
    ]


def test_batches_make_no_difference() -> None:
    talk, random = Talk().opened(), Random(5)
    for number in range(60):
        at = 3 * number + 2 + random.choice((0, 0, 4, 90))
        talk.request(at, 100 * random.choice((number, number, number - 1, number + 1)), ack=100 * number)
        talk.answer(at + 1, 100 * number, 100 * number, size=random.choice((0, 100)))
    whole = counted(talk.wire.packets)
    assert whole == counted(talk.wire.packets, 1, 2, 3, 5, 8, 13, 21)
    side = whole[0][0].from_client
    assert side.tail_probes + side.spurious_retransmissions > 3
    assert side.out_of_order


def test_no_more_connections_are_measured_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEASURED_FLOWS", 2)
    wire = Wire()
    for port in range(3):
        Talk(wire=wire, begin_ns=START_NS + port * MS, client=f"10.0.0.1:{50_000 + port}").opened()
    flows, found = counted(wire.packets)
    assert (len(flows), found.connections, found.not_listed) == (2, 2, 1)


# -- is it the network?


def lossy(lost: int, requests: int = 100) -> Talk:
    talk = Talk().opened()
    for number in range(requests):
        talk.request(10 * number + 2, 100 * number, size=50).request(10 * number + 3, 100 * number + 50, size=50)
        if number < lost:
            talk.request(10 * number + 9, 100 * number, size=50)
        talk.acked(10 * number + 10, 100 * number + 100)
    return talk


@pytest.mark.parametrize(
    ("lost", "requests", "verdict"),
    [(0, 4, "unknown"), (0, 100, "none"), (1, 10, "little"), (2, 100, "little"), (3, 100, "loss")],
)
def test_the_verdict(lost: int, requests: int, verdict: str) -> None:
    _, found = lossy(lost, requests).counted
    assert (found.verdict, found.retransmissions) == (verdict, lost)


def test_what_the_capture_lost_is_not_the_networks_fault() -> None:
    talk = lossy(0)
    del talk.wire.packets[40:43]
    (flow,), found = talk.counted
    assert (found.verdict, found.gapped) == ("none", 1)
    assert flow.from_client.gap_bytes == found.gap_bytes > 0
