"""A hole that is decided a second later: what came behind it stands in the time line with the packet that decided
it."""

from __future__ import annotations

from tests.tables.story import Cells, Chapter, Story, ns
from tests.tables.story import row as row_at

PAUSES_NS = 2_000_000_000


def told() -> Story:
    """The sniffer missed packet 6; the request behind it waits, and a second later its answer acknowledges both."""
    story = Story(missed=(6,))
    story.ask(18, 3, client_software_name="demo", client_software_version="1.0")
    story.answer(18, 3)
    story.ask(12, 4, group_id="g")
    story.ask(12, 4, group_id="g")
    story.wire.pause(1)
    story.answer(12, 4)
    story.wire.pause(1)
    story.close()
    return story


def silence(packet: int, paused_ns: int) -> Cells:
    """The row of the pause before a packet."""
    return row_at(
        packet, paused_ns, flow_id=None, broker=None, client=None, exchange=None, stage="link",
        code="SILENCE_UNPROVED", detail="for 1.001 s", kind="event", times=1, first_packet=packet - 1, size_bytes=0,
        by_ns=1_001_000_600,
    )  # fmt: skip


CHAPTER = Chapter(
    told,
    {
        "weirds": [
            row_at(
                7, exchange=None, stage="reassembly", code="STREAM_GAP", detail="missing", kind="gap", times=1,
                direction="client",
                first_packet=4, last_packet=7, size_bytes=26, position=4,
            ),
            silence(8, PAUSES_NS // 2),
            row_at(
                7, stage="framing", code="RESYNC", detail="", kind="message", times=1, direction="client",
                size_bytes=22,
                correlation_id=3,
            ),
            silence(9, PAUSES_NS),
        ],
        "flows": [
            row_at(
                1, exchange=None, software_name="demo", software_version="1.0", service="kafka", told=True,
                opened_by="client",
                half_closed_packet=9, half_closed_ts_ns=ns(9) + PAUSES_NS, half_closed_by="client",
                half_closed_position=8,
                first_request_packet=4, last_request_packet=7, first_response_packet=5, closed_packet=10,
                closed_ts_ns=ns(10) + PAUSES_NS, closed_by="client", ended="fin", last_packet=10,
                last_ts_ns=ns(10) + PAUSES_NS,
                client_bytes=53, broker_bytes=32, gaps=1, late_positions=[4], late_packets=[8],
            ),
        ],
    },
)  # fmt: skip
