"""Connections on their way to another process: it has them as they were when a batch was packed, and forgets those that
are over."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kshark.model import Closed, Ends, Event, Flow, Frames, Gap, HalfClosed, Opened, Weird
from kshark.parallel import Forwarder, Receiver
from kshark.parallel.packed import flow_values

Told = Callable[[Flow], Event]

TOLD: dict[str, Told] = {
    "opened": lambda flow: Opened(flow, 1, 10),
    "gap": lambda flow: Gap(flow, 0, 5, 50, 3, 5, 100, "missing"),
    "half closed": lambda flow: HalfClosed(flow, 5, 50, 0),
    "closed": lambda flow: Closed(flow, 5, 50, "fin", 0),
    "oddity": lambda flow: Weird("BYTES_SKIPPED", "framing", 5, 50, "", flow.id, 0),
}


def made() -> Flow:
    return Flow(4, Ends("10.0.0.1:50000", "10.0.0.9:9092"), 1, 10)


def changed(flow: Flow) -> None:
    """What earlier stages learn of a connection as it goes on."""
    flow.opened_by, flow.service, flow.last_packet, flow.last_time_ns, flow.gaps = 1, "other", 5, 50, 2
    flow.stream_bytes, flow.begun = [7, 8], (True, False)


def frames(flow: Flow) -> Frames:
    one = np.array([0])
    return Frames(b"abcd", [flow], [True], one, one, one + 4, one + 5, one + 50, one + 5, one + 50, one > 0)


def theirs(receiver: Receiver, number: int = 4) -> Flow:
    return receiver._flows[number]


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_of_a_connection_finds_it_as_it_is_then(name: str) -> None:
    forwarder, receiver, flow = Forwarder(), Receiver(), made()
    receiver.events(forwarder.pack([Opened(flow, 1, 10)]))
    here = theirs(receiver)
    changed(flow)
    passed = forwarder.pack([TOLD[name](flow)])
    flow.gaps = 99  # what comes later is told later
    (event,) = receiver.events(passed)
    flow.gaps = 2
    assert type(event) is type(TOLD[name](flow))
    assert flow_values(here) == flow_values(flow)
    if not isinstance(event, Weird):
        assert event.flow is here


def test_a_connection_with_frames_only_is_the_same_from_batch_to_batch() -> None:
    forwarder, receiver, flow = Forwarder(), Receiver(), made()
    (first,) = receiver.events(forwarder.pack([frames(flow)]))
    assert isinstance(first, Frames)
    here = first.flows[0]
    assert flow_values(here) == flow_values(flow)
    (second,) = receiver.events(forwarder.pack([frames(flow)]))
    assert isinstance(second, Frames)
    assert second.flows[0] is here


def test_whoever_turns_out_to_be_the_client_is_told_with_any_batch() -> None:
    forwarder, receiver, flow, other = Forwarder(), Receiver(), made(), made()
    other.id = 5
    receiver.events(forwarder.pack([Opened(flow, 1, 10), Opened(other, 2, 20)]))
    flow.client_side = 1
    receiver.events(forwarder.pack([frames(other)]))
    assert (theirs(receiver).client_side, theirs(receiver).client) == (1, "10.0.0.9:9092")


def test_what_the_other_process_learned_itself_stays() -> None:
    forwarder, receiver, flow = Forwarder(), Receiver(), made()
    receiver.events(forwarder.pack([Opened(flow, 1, 10)]))
    theirs(receiver).software_name, theirs(receiver).software_version = "librdkafka", "2.8"
    changed(flow)
    receiver.events(forwarder.pack([TOLD["gap"](flow)]))
    assert (theirs(receiver).software_name, theirs(receiver).software_version, theirs(receiver).gaps) == (
        "librdkafka",
        "2.8",
        2,
    )


def test_connections_that_are_over_are_forgotten_on_both_sides() -> None:
    forwarder, receiver = Forwarder(), Receiver()
    for number in range(3):
        flow = made()
        flow.id = number
        receiver.events(forwarder.pack([Opened(flow, 1, 10)]))
        flow.client_side = 0
        receiver.events(forwarder.pack([Closed(flow, 5, 50, "fin", 0)]))
    assert (forwarder._live, forwarder._client_sides, receiver._flows) == ({}, {}, {})
