"""Changes of share partitions for a person, on wide and narrow terminals."""

from __future__ import annotations

from kshark.analysis import Delivery, InFlightRange
from kshark.output.deliveries import delivery_lines
from kshark.output.spans import plain


def change(packet: int, event: str, *ranges: InFlightRange) -> Delivery:
    return Delivery(
        group_id="billing", topic_id="topic-id", topic="invoices", partition=0, packet=packet, time_ns=0, event=event,
        member_id="m",
        start_offset=100, end_offset=110, ranges=list(ranges), offsets=[(100, 109)], client_id="consumer-1",
        client="10.0.0.1:50001",
    )  # fmt: skip


ACQUIRED = InFlightRange(100, 109, "acquired", 1, "m")
CHANGES = [change(225, "acquired", ACQUIRED), change(232, "session_released")]


def told(changes: list[Delivery], width: int | None) -> list[str]:
    return [plain(line) for line in delivery_lines(changes, width)]


def test_all_in_one_row_where_there_is_room() -> None:
    assert told(CHANGES, None) == [
        "packet  time          records of             event             by          offsets  start  end  in flight "
        "afterwards",
        "   225  00:00:00.000  billing · invoices[0]  acquired          consumer-1  100-109    100  110  100-109 "
        "acquired ×1 consumer-1",
        "   232  00:00:00.000  billing · invoices[0]  session released  consumer-1  100-109    100  110",
        "",
        "2 changes in 1 share partition",
    ]


def test_what_is_in_flight_stands_below_on_a_narrow_terminal() -> None:
    assert told(CHANGES, 80) == [
        "packet  time          event             by          offsets  start  end",
        "   225  00:00:00.000  acquired          consumer-1  100-109    100  110",
        "        billing · invoices[0]  100-109 acquired ×1 consumer-1",
        "   232  00:00:00.000  session released  consumer-1  100-109    100  110",
        "        billing · invoices[0]",
        "",
        "2 changes in 1 share partition",
    ]


def test_many_records_in_flight_are_cut_at_the_edge() -> None:
    assert max(map(len, told([change(1, "acquired", *[ACQUIRED] * 30)], 80))) == 80
