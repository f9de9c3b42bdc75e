"""More connections than there is room for: one that was forgotten goes on where it stood, as long as no byte is missing
between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kshark import limits
from kshark.framing.judgement import Conversation
from kshark.framing.rested import Rested
from kshark.framing.streams import request_limit
from kshark.model import Closed, Ends, Event, Exchange, Flow, Message, Tls, Weird
from kshark.pipeline import Engine, Options
from tests.exchange.test_stage import answer, framed, metadata
from tests.framing.test_middle import REGISTRY, WHOLE
from tests.framing.test_recognition import HELLO, WELCOME
from tests.packets import Tcp, Wire, batches
from tests.property.mangled import packets_of
from tests.shared import sample_of

BROKER = "10.0.0.9:9092"


@pytest.fixture(autouse=True)
def room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FLOWS", 1)


class Place:
    """Two connections of which one is held; each is forgotten as soon as the other one speaks."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.one, self.other = (Tcp(self.wire, f"10.0.0.{host}:50001", BROKER, [7_000, 9_000]) for host in (1, 2))
        self.other.open()

    def forget(self) -> None:
        """The other one says something."""
        self.other.client(metadata(1))
        self.other.broker(answer(1))

    def events(self, lost: tuple[int, ...] = ()) -> Iterator[Event]:
        """What comes when each packet is a batch."""
        items = [
            item for item in batches(self.wire.packets, [1] * len(self.wire.packets)) if int(item.number[0]) not in lost
        ]
        for page in Engine(Options(), REGISTRY).pages(items):
            yield from page


def of_one(events: list[Event]) -> list[tuple[str, int | None]]:
    return [
        (event.kind, event.correlation_id)
        for event in events
        if isinstance(event, Message) and "10.0.0.1" in event.client
    ]


def codes(events: list[Event]) -> set[str]:
    messages = [code for event in events if isinstance(event, Message) for code in event.weird or ()]
    return {*messages, *(event.code for event in events if isinstance(event, Weird))} - {"FLOWS_FORGOTTEN"}


def flows(events: list[Event]) -> list[Flow]:
    """Those of the first connection, in their order."""
    ends = [event.flow for event in events if isinstance(event, Closed) and "10.0.0.1" in event.flow.ends.first]
    return sorted(ends, key=lambda flow: flow.id)


def test_between_two_messages_neither_side_nor_boundary_is_searched() -> None:
    place = Place()
    place.one.open()
    place.one.client(HELLO)
    place.one.broker(WELCOME)
    place.forget()
    place.one.client(metadata(2))
    place.one.broker(answer(2))
    events = list(place.events())
    first, second = flows(events)
    assert (first.continues, second.continues) == (None, first.id)
    assert of_one(events) == [("request", 1), ("response", 1), ("request", 2), ("response", 2)]
    assert codes(events) == set()
    assert (second.begun, second.opened_by, second.client_side) == ((False, False), None, 0)


def test_an_answer_that_nobody_could_read_is_cut() -> None:
    """Behind a boundary that has to be searched, an answer to a request from before would not be found."""
    place = Place()
    place.one.open()
    place.one.client(HELLO)
    place.one.broker(WELCOME)
    place.one.client(metadata(2))
    place.forget()
    place.one.broker(framed(b"\0\0\0\2" + bytes(60)))
    events = list(place.events())
    assert of_one(events)[-1] == ("response", 2)
    assert [event.outcome for event in events if isinstance(event, Exchange)][-1] == "orphan"


def test_who_was_opened_and_said_nothing_begins() -> None:
    place = Place()
    place.one.open()
    place.forget()
    place.one.client(HELLO)
    place.one.broker(WELCOME)
    events = list(place.events())
    assert of_one(events) == [("request", 1), ("response", 1)]
    assert codes(events) == set()
    last = flows(events)[-1]
    assert (last.begun, last.opened_by) == ((True, True), 0)


def in_a_message(place: Place) -> None:
    place.one.client(metadata(2)[:9])
    place.forget()
    place.one.client(metadata(2)[9:])


def long_message(place: Place, kept: int) -> None:
    """A request in three segments; of the first one the capture keeps so many bytes, and the connection is forgotten
    behind it."""
    data = framed(metadata(2)[4:] + bytes(3_000))
    (first,) = place.one.client(data[:1460])
    packet = place.wire.packets[first - 1]
    place.wire.packets[first - 1] = replace(packet, data=packet.data[: len(packet.data) - 1460 + kept])
    place.forget()
    place.one.client(data[1460:])


def in_a_message_of_known_length(place: Place) -> None:
    long_message(place, 100)


def where_no_boundary_is_known(place: Place) -> None:
    long_message(place, 2)


def behind_a_hole(place: Place) -> None:
    place.forget()
    place.one.seq[0] += 5
    place.one.client(metadata(2))


def on_the_same_ports(place: Place) -> None:
    place.forget()
    place.one.seq = [70_000, 90_000]
    place.one.open()


@pytest.mark.parametrize(
    "broken", [in_a_message, in_a_message_of_known_length, where_no_boundary_is_known, behind_a_hole, on_the_same_ports]
)
def test_else_it_is_looked_at_as_one_that_nobody_knew(broken: Callable[[Place], None]) -> None:
    place = Place()
    place.one.open()
    place.one.client(HELLO)
    place.one.broker(WELCOME)
    before = len(place.wire.packets)
    broken(place)
    for number in (3, 4):
        place.one.client(metadata(number))
        place.one.broker(answer(number))
    events = list(place.events())
    without = [each for each in of_one(list(place.events(tuple(range(1, before + 1))))) if each != ("request", 2)]
    assert [each for each in of_one(events)[2:] if each != ("request", 2)] == without
    assert without[-1] == ("response", 4)
    assert "FRAME_LENGTH_INVALID" not in codes(events)


def conversation(flow: Flow) -> Conversation:
    made = Conversation(flow, request_limit(None))
    made.settle(0)
    return made


@pytest.mark.parametrize("tls", [None, Tls(0)])
def test_what_was_decrypted_does_not_go_on_as_it_stood(tls: Tls | None) -> None:
    """The state of its keys is gone."""
    rested, ends = Rested(request_limit(None)), Ends("10.0.0.1:50001", BROKER)
    rested.leave(conversation(Flow(7, ends, 1, 1, tls=tls)))
    assert (rested.resume(Flow(8, ends, 2, 2, continues=7)) is None) == (tls is not None)
    assert rested.resume(Flow(9, ends, 3, 3, continues=7)) is None  # it went on already


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "path", sample_of([path for path in WHOLE if path.stat().st_size < 2_000_000], 4, 5), ids=lambda path: path.name
)
def test_of_a_capture_nothing_is_invented_and_little_lost(path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost lay on both sides of a moment at which its connection was forgotten."""

    def messages(flows: int) -> set[tuple[object, ...]]:
        monkeypatch.setattr(limits, "FLOWS", flows)
        packets = packets_of(path)  # type: ignore[arg-type]
        pages = Engine(Options(records=False), REGISTRY).pages(batches(packets, [20] * (len(packets) // 20)))
        found = [event for page in pages for event in page if isinstance(event, Message)]
        return {(each.packet, each.kind, each.correlation_id, each.size) for each in found}

    whole, found = messages(20_000), messages(1)
    assert found <= whole
    assert len(found) >= 0.85 * len(whole)
